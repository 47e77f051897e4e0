package driver

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// An acquire of each kind, with each option of the face, ends in each way while its command is in
// flight, and the command is carried in each way. The client goes on: no late answer reaches a call
// that has returned, whose memory other locks reuse meanwhile, and nothing is left. The race
// detector sees what the assertions do not.
//
// TestEachOptionOfTheFaceEndsInEachWay fails for an option of package rlock that is missing in this
// table.
var optionsOfAnAcquire = map[string]func(req *Request){
	"none":           func(*Request) {},
	"WithLease":      func(req *Request) { req.Lease = 20 * time.Second },
	"WithMaxHold":    func(req *Request) { req.LimitHold(20 * time.Second) },
	"WithMinHold":    func(req *Request) { req.Least = time.Second },
	"WithWait":       func(req *Request) { req.Wait = 0 },
	"WithPermits":    func(req *Request) { req.More = 1 },
	"WithMaxWaiters": func(req *Request) { req.Most = 1 },
	"WithProgress":   func(req *Request) { req.Progress = func(int, int) {} },
	"an answer": func(req *Request) {
		req.Answer, req.Unless = new(terms.Answer), &wire.Condition{Source: "return false"}
	},
}

// A wayToEnd is the fate of the first command of a call.
type wayToEnd struct {
	name   string
	fate   fate
	leaves bool // the caller leaves before the answer
	closes bool // the client is closed before the answer
	met    bool // the condition of the call is met
}

var waysToEnd = []wayToEnd{
	{name: "answered", fate: passes},
	{name: "refused", fate: refused},
	{name: "answered by its condition", fate: passes, met: true},
	{name: "left, and executed later", fate: held, leaves: true},
	{name: "left, and answered later", fate: late, leaves: true},
	{name: "left, and answered by its condition", fate: held, leaves: true, met: true},
	{name: "not executed", fate: lost},
	{name: "executed without an answer", fate: unheard},
	{name: "executed after the connection is lost", fate: strays},
	{name: "the client closes", fate: held, closes: true},
	{name: "the carrier panics", fate: panicking},
}

// carriages are the ways in which the command of an acquire is carried.
var carriages = []string{"behind", "apart", "in a row"}

func TestEachOptionOfTheFaceEndsInEachWay(t *testing.T) {
	names, err := filepath.Glob("../../*.go")
	require.NoError(t, err)
	found := 0
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || f.Type.Results == nil || !f.Name.IsExported() {
				continue
			}
			if id, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && id.Name == "AcquireOption" {
				found++
				assert.Contains(t, optionsOfAnAcquire, f.Name.Name, "an option of an acquire is missing in the table")
			}
		}
	}
	assert.Equal(t, len(optionsOfAnAcquire)-2, found, "options of the table that the face does not have")

	for kind := range KindID(KindCount) {
		for _, carriage := range carriages {
			for _, way := range waysToEnd {
				t.Run(fmt.Sprintf("%s/%s/%s", kindNames[kind], carriage, way.name), func(t *testing.T) {
					for option, change := range optionsOfAnAcquire {
						for _, shared := range []bool{false, true} {
							if shared && kind != ReadWriteKind || option == "WithPermits" && kind != SemaphoreKind ||
								option == "an answer" && (kind == ReadWriteKind || kind == SemaphoreKind) {
								continue // the kind refuses the option
							}
							one := leaving{kind: kind, shared: shared, option: option, carriage: carriage, way: way, change: change}
							bubbleOf(t, kind, one.run)
						}
					}
				})
			}
		}
	}
}

var kindNames = [KindCount]string{"plain", "fenced", "read-write", "fair", "semaphore"}

// A leaving is one case of the table.
type leaving struct {
	kind             KindID
	shared           bool
	option, carriage string
	way              wayToEnd
	change           func(req *Request)
}

func (e leaving) run(t *testing.T, f *fake) {
	what := fmt.Sprintf("option %s, shared %v", e.option, e.shared)
	c := f.join(nil)
	if f.most = 0; e.kind == SemaphoreKind {
		f.most = 2
	}
	c.wire.(*fakeWire).keeps = e.carriage == "apart"
	l := c.lock()
	if e.shared {
		readers := l.ForReaders()
		l = &readers
	}

	f.givesNext(e.way.fate, func(cmd *core.Command) bool { return cmd.Op == core.Acquire || cmd.Op == core.Join })
	if e.way.met {
		f.meets("it is 42")
	}
	req := request(terms.NewHandleOwner())
	e.change(&req)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type result struct {
		held []Handle
		err  error
	}
	got := make(chan result, 1)
	go func() {
		if e.carriage == "in a row" {
			req.Wait, req.Whole = 0, &terms.Whole{Name: "whole"} // each is an attempt, for a part of a whole
			held, err := HoldAll(ctx, t.Context(), []*Lock{l}, []Request{req})
			got <- result{held, err}
			return
		}
		h, err := l.Hold(ctx, t.Context(), req)
		got <- result{[]Handle{h}, err}
	}()
	synctest.Wait()
	if e.way.leaves {
		cancel()
	}
	if e.way.closes {
		go func() { _ = c.Close() }()
		synctest.Wait()
		f.deliverAll() // a row waits for its commands, also when the client closes
	}
	r := <-got // a call that waits tries again
	f.gives(passes)
	if e.way.leaves {
		require.Error(t, r.err, what)
	}
	if e.way.fate == passes && !e.way.met {
		require.NoError(t, r.err, what)
	}

	// The memory of the call is reused, by other locks of other shards, before and after the late
	// answer.
	others := func() {
		if e.way.closes {
			return
		}
		for i := range 20 {
			other := NewLock(c, e.kind, fmt.Sprint("other", i))
			if f.most > 0 {
				other = NewSemaphore(c, fmt.Sprint("other", i), f.most)
			}
			o := terms.NewOwner()
			require.NoError(t, other.Take(t.Context(), request(o)), what)
			require.NoError(t, other.Unlock(t.Context(), o), what)
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); others() }()
	f.deliverAll()
	<-done
	others()
	f.meets("")
	if r.err == nil {
		for _, h := range r.held {
			_ = h.Release(t.Context()) // one with a lease may be over
		}
	}
	time.Sleep(40 * time.Second) // longer than a lease
	if !e.way.closes {
		h, err := l.Hold(t.Context(), t.Context(), request(terms.NewHandleOwner()))
		require.NoError(t, err, what)
		require.NoError(t, h.Release(t.Context()), what)
		time.Sleep(40 * time.Second)
	}
	f.isClean()
}

// deliverAll lets go on everything that was held back.
func (f *fake) deliverAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range slices.Backward(f.waiting) {
		close(p.done)
	}
	f.waiting = nil
}
