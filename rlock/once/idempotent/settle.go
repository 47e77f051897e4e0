package idempotent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/rlock/once"
)

// A Response is the response that later requests get.
type Response struct {
	Status int         // the status, 200 to 999
	Header http.Header // the header; the fields that the package comment says are not kept are left out
	Body   []byte      // the body, at most MostResponse bytes
}

var (
	// ErrSettled is the error of [Guard.Settle] for a key that has a response. The response stays.
	ErrSettled = errors.New("idempotent: the key has a response")
	// ErrInvalidResponse is the error of [Guard.Settle] for a response that cannot be kept.
	ErrInvalidResponse = errors.New("idempotent: invalid response")

	errForgotten = errors.New("forgotten")
)

// dropMark deletes a mark of any run.
//
//	KEYS[1]  the mark
var dropMark = wire.ScriptOf(`return redis.call('del', KEYS[1])`)

// Settle gives a response to a request whose outcome is unknown. Later requests with the key get
// the response, for Options.Keep, if they are like the first one. It is for an operator, or a job,
// that has found out the outcome, for example in the database of the effect. The key is the value
// of [Key], and "key" in the response with status 500. If there was no request with the key, any
// request gets the response.
//
// While a handler of the key runs, in any process, Settle waits for it, until ctx ends. It returns
// [ErrSettled] if the key has a response, [ErrInvalidResponse], and the errors of [once.Group.Do].
func (g *Guard) Settle(ctx context.Context, key string, response Response) error {
	if response.Status < 200 || response.Status > 999 || len(response.Body) > g.o.MostResponse {
		return fmt.Errorf("%w: its status is %d, and its body has %d bytes of %d that may be kept", ErrInvalidResponse, response.Status, len(response.Body), g.o.MostResponse)
	}
	header := fields(response.Header.Clone())
	maps.DeleteFunc(header, func(name string, _ []string) bool { return !isKept(name) })
	_, shared, err := g.group.Do(ctx, key, func(ctx context.Context) ([]byte, error) {
		at := g.markOf(key)
		reply, err := once.HoldOf(ctx).Exec(ctx, "return redis.call('get', KEYS[1])", []string{at}, nil)
		if err != nil {
			return nil, err
		}
		value, _ := reply.ToString() // "" if there is no mark
		print, _, _ := strings.Cut(value, " ")
		return json.Marshal(record{Print: print, Status: response.Status, Header: header, Body: response.Body})
	})
	if err == nil && shared {
		return ErrSettled
	}
	return err
}

// Forget forgets the response of a key, or that its outcome is unknown: the next request with the
// key runs the handler. The key is the same as for [Guard.Settle]. Forget waits for a running
// handler, in any process, until ctx ends. It returns the errors of [once.Group.Do] and
// [once.Group.Forget]. After a missing right ([rlock.ErrNoPermission]) a response that is kept
// stays, and an unknown outcome may be forgotten.
func (g *Guard) Forget(ctx context.Context, key string) error {
	for {
		_, _, err := g.group.Do(once.Fresh(ctx), key, func(held context.Context) ([]byte, error) {
			held, cancel := context.WithCancelCause(held) // the context of the function alone does not end with ctx, since the group finishes what it runs
			defer cancel(nil)
			defer context.AfterFunc(ctx, func() { cancel(wire.Over(ctx)) })()
			mark := g.markOf(key)
			if err := g.drop(held, mark); err != nil { // the mark goes first, since a response is given without a mark, too
				return nil, fmt.Errorf("idempotent: forget %q: DEL of %q: %w", key, mark, err)
			}
			if err := g.group.Forget(held, key); err != nil {
				return nil, err
			}
			return nil, errForgotten
		})
		switch {
		case errors.Is(err, errForgotten):
			return nil
		case err != nil: // else another request has run its handler meanwhile
			return err
		}
	}
}

// drop deletes a mark of any run. Attempts without an answer are repeated until ctx ends.
func (g *Guard) drop(ctx context.Context, mark string) (err error) {
	dropped := func(ctx context.Context) bool {
		_, failed := g.ask(ctx, dropMark, mark)
		diagnosis, explained := wire.Diagnose(failed)
		err = explained
		return diagnosis == wire.Never // true also without an error
	}
	if !g.again(ctx, dropped) {
		return wire.TimeUp(ctx, err)
	}
	return err
}
