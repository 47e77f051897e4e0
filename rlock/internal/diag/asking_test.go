package diag

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A post takes messages, and delivers none.
type post struct {
	ctx     context.Context
	running sync.WaitGroup
	told    []wire.ClientMessage
}

func (p *post) Tell(_ context.Context, _ string, m wire.ClientMessage) (int64, error) {
	p.told = append(p.told, m)
	return 1, nil
}

func (p *post) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func (p *post) Deadline(time.Time) context.Context { return p.ctx }

func (p *post) Done() <-chan struct{} { return p.ctx.Done() }

func (p *post) Start(work func()) bool {
	p.running.Go(work)
	return true
}

// virtual runs a test in virtual time.
func virtual(t *testing.T, f *fake, run func(t *testing.T, d *Diag, p *post)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		p := &post{ctx: ctx}
		run(t, New(Config{Source: f, Redis: p, ID: wire.NewID()}), p)
		end()
		p.running.Wait()
	})
}

func question(i int) wire.ClientMessage {
	return wire.ClientMessage{Verb: wire.Asks, Owner: fmt.Sprintf("00000000-0000-8000-8000-%012d:0", i), Text: "1"}
}

func TestAQuestionIsAnsweredAtOnce(t *testing.T) {
	f := &fake{views: []terms.View{plain("a", 1, 0, 2)}}
	virtual(t, f, func(t *testing.T, d *Diag, p *post) {
		d.Asked(question(1))
		synctest.Wait()
		require.Len(t, p.told, 1)
		assert.Equal(t, question(1).Owner, p.told[0].Owner)
		a, err := wire.DecodeAnswer(p.told[0].Text)
		require.NoError(t, err)
		assert.Equal(t, d.ID.Prefix, a.Client)
		assert.Len(t, a.Uses, 2)

		d.NoAnswers = true
		d.Asked(question(2))
		d.NoAnswers = false
		later := question(3)
		later.Text = "no version"
		d.Asked(later)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Len(t, p.told, 1)
	})
}

// Others may ask as often as they like: a client is at it for a tenth of the time at most.
func TestAFloodOfQuestionsCostsATenthOfTheTime(t *testing.T) {
	for _, takes := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond, time.Second} {
		f := &fake{takes: takes}
		virtual(t, f, func(t *testing.T, d *Diag, p *post) {
			const flood = 2 * time.Minute
			for i := range int(flood / (10 * time.Millisecond)) {
				for j := range 20 {
					d.Asked(question(100*i + j))
				}
				time.Sleep(10 * time.Millisecond)
			}
			synctest.Wait()
			looks := time.Duration(f.looks)
			assert.LessOrEqual(t, looks-1, flood/(takes+max(answerPause, 10*takes)))
			assert.LessOrEqual(t, (looks-1)*takes, flood/10)
			assert.Greater(t, looks+1, flood/(takes+max(answerPause, 10*takes))-10)
			assert.LessOrEqual(t, len(p.told), maxAskers*f.looks)
		})
	}
}

// Waits come first, then the holds of those that wait.
func TestAnAnswerBeginsWithWhatOthersMayWaitForInVain(t *testing.T) {
	f := &fake{views: []terms.View{plain("a", 1, 0), plain("b", 2, 5, 3), plain("c", 3, 9), plain("d", 4, 1)}}
	var told []string
	for _, u := range tellable(Uses(f, true)) {
		told = append(told, fmt.Sprintf("%s %d %t", u.Name, u.Owner, u.Waits))
	}
	assert.Equal(t, "b 3 true, c 3 false, a 1 false, d 4 false, b 2 false", strings.Join(told, ", "))
}
