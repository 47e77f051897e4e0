package rlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// A printer stands for the *testing.T that an example has not: it prints errors.
type printer struct {
	testing.TB
	cleanups []func()
}

func (p *printer) Helper()                           {}
func (p *printer) Cleanup(f func())                  { p.cleanups = append(p.cleanups, f) }
func (p *printer) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (p *printer) Log(...any)                        {}
func (p *printer) Context() context.Context          { return context.Background() }

// end does what the end of a test does.
func (p *printer) end() {
	for i := len(p.cleanups) - 1; i >= 0; i-- {
		p.cleanups[i]()
	}
}

func ExampleNew() {
	t := new(printer) // in a test, its *testing.T
	defer t.end()     // which needs no end

	client := rlocktest.New(t, func(c *rlock.Config) { c.Lease = time.Minute })
	lock := client.NewLock("orders:42")
	err := lock.Do(t.Context(), func(ctx context.Context) error {
		left, err := lock.TTL(ctx)
		fmt.Println(left > 30*time.Second) // the default lease
		return err
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleNewServer() {
	t := new(printer) // in a test, its *testing.T
	defer t.end()

	server := rlocktest.NewServer(t)
	a, b := server.Client(), server.Client(func(c *rlock.Config) { c.Lease = 10 * time.Minute })
	_ = a.NewLock("orders:42").Lock(t.Context())
	_, err := b.NewLock("orders:42").Acquire(t.Context(), rlock.WithWait(0))
	fmt.Println(errors.Is(err, rlock.ErrNotAcquired), server.AssertHeld("orders:42", a))
	// Output: true true
}

func ExampleServer_Options() {
	t := new(printer) // in a test, its *testing.T
	defer t.end()

	server := rlocktest.NewServer(t)
	// The program makes its client itself:
	client, err := rlock.New(rlock.Config{Redis: server.Options()})
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	defer client.Close()
	_ = client.NewLock("orders:42").Lock(t.Context())
	fmt.Println(server.AssertHeld("orders:42", client))
	// Output: true
}

func ExampleServer_Miniredis() {
	t := new(printer) // in a test, its *testing.T
	defer t.end()

	server := rlocktest.NewServer(t)
	_ = server.Miniredis().Set("stock:42", "3")
	redis, _ := rueidis.NewClient(server.Options())
	defer redis.Close()
	_ = server.Client().NewLock("orders:42").Do(t.Context(), func(ctx context.Context) error {
		return redis.Do(ctx, redis.B().Decr().Key("stock:42").Build()).Error()
	})
	fmt.Println(server.Miniredis().Get("stock:42"))
	// Output: 2 <nil>
}

func ExampleServer_Lose() {
	t := new(printer) // in a test, its *testing.T
	defer t.end()

	server := rlocktest.NewServer(t)
	err := server.Client().NewLock("orders:42").Do(t.Context(), func(ctx context.Context) error {
		server.Lose("orders:42")
		<-ctx.Done() // at once
		fmt.Println(errors.Is(context.Cause(ctx), rlock.ErrLost))
		return nil
	})
	fmt.Println(errors.Is(err, rlock.ErrLost))
	// Output:
	// true
	// true
}

func ExampleServer_Refuse() {
	t := new(printer) // in a test, its *testing.T
	defer t.end()

	server := rlocktest.NewServer(t)
	lock := server.Client().NewLock("orders:42")
	server.Refuse("OOM command not allowed when used memory > 'maxmemory'.", "EVALSHA", "EVAL")
	_, err := lock.TryLock(t.Context())
	fmt.Println(err)
	server.Heal()
	fmt.Println(lock.TryLock(t.Context()))
	// Output:
	// rlock: lock "orders:42": OOM command not allowed when used memory > 'maxmemory'.
	// true <nil>
}

func ExampleServer_Kill() {
	t := new(printer) // in a test, its *testing.T
	defer t.end()

	server := rlocktest.NewServer(t)
	a := server.Client(func(c *rlock.Config) { c.Lease = 100 * time.Millisecond })
	b := server.Client()
	_, _ = a.NewLock("orders:42").Acquire(t.Context())
	server.Kill(a)
	_ = b.NewLock("orders:42").Lock(t.Context()) // waits for the lease
	fmt.Println(server.AssertHeld("orders:42", b))
	// Output: true
}
