package wire

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A cluster has nodes that answer each command with an error, or nil, and silent ones.
type cluster struct {
	rueidis.Client
	nodes map[string]rueidis.Client
}

func (c *cluster) Nodes() map[string]rueidis.Client { return c.nodes }

type node struct {
	rueidis.Client
	silent bool
	err    error
}

func (*node) B() (b rueidis.Builder) { return b }

func (n *node) Do(ctx context.Context, _ rueidis.Completed) rueidis.RedisResult {
	if n.silent {
		<-ctx.Done()
		return rueidis.NewErrorResult(ctx.Err())
	}
	return rueidis.NewErrorResult(n.err)
}

// One node that answers is enough, however many are silent.
func TestSilentNodesDoNotDelayTheQuestionForShardedPubSub(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		answers []error
		err     error
		takes   time.Duration
	}{
		{[]error{nil}, nil, 0},
		{[]error{rueidis.ErrClosing, nil}, nil, 0},
		{[]error{rueidis.ErrClosing}, ErrNoAnswer, time.Second},
		{nil, ErrNoAnswer, time.Second},
		{[]error{&absent{Never, refused}}, refused, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes := make(map[string]rueidis.Client)
			for i := range 20 {
				nodes[fmt.Sprint("silent ", i)] = &node{silent: true}
			}
			for i, err := range c.answers {
				nodes[fmt.Sprint("node ", i)] = &node{err: err}
			}
			r := &Redis{Client: &cluster{nodes: nodes}, Patience: 3 * time.Second, ctx: t.Context()}
			began := time.Now()
			_, err := r.askForSharded()
			assert.Equal(t, c.takes, time.Since(began))
			require.ErrorIs(t, err, c.err)
			r.background.close()
			assert.Equal(t, time.Second, time.Since(began), "no question ends sooner")
		})
	}
}
