// Flashsale sells 100 items to 1 000 buyers who all come at once, in four shops
// that share one stock in Redis, in three ways, and in two more while buyers are stopped:
//
//		go run ./examples/flashsale
//
//	  - naive:  look at the stock, then take one. Many look before one has taken.
//	  - lock:   the same two steps, one buyer at a time.
//	  - script: both steps in one command that Redis runs as a whole.
//	  - stopped: the lock, while every twentieth buyer stands still between the two steps until its lease is over,
//	    as a process that the machine has stopped. It then takes one that others have sold.
//	  - guarded: the same, but the item is taken with Hold.Write: Redis refuses it unless the hold has the lock.
//
// Look at how many were sold, and at what that took. Where all that matters is
// in Redis, as here, a script is the better tool (the server in memory is slow at
// scripts: set REDIS_ADDR for the times of a real one). The lock is for what
// Redis cannot do alone: ask a payment service, write to a database.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

const (
	buyers = 1000
	items  = 100
	stock  = "example:{flashsale}:stock" // in a Cluster in the slot of the lock
	lease  = 100 * time.Millisecond
)

// A shop has its own clients, as every process has.
type shop struct {
	locks *rlock.Client
	redis rueidis.Client
}

// naive sells an item if there is one, and reports whether it did. Between the
// look and the take anything may happen.
func (s shop) naive(ctx context.Context) (bool, error) {
	if left, err := s.left(ctx); err != nil || left <= 0 {
		return false, err
	}
	return true, s.take(ctx)
}

func (s shop) left(ctx context.Context) (int64, error) {
	return s.redis.Do(ctx, s.redis.B().Get().Key(stock).Build()).AsInt64()
}

func (s shop) take(ctx context.Context) error {
	return s.redis.Do(ctx, s.redis.B().Decr().Key(stock).Build()).Error()
}

// locked is naive, one buyer at a time.
func (s shop) locked(ctx context.Context) (sold bool, err error) {
	err = s.locks.NewLock("example:{flashsale}:lock").Do(ctx, func(ctx context.Context) error {
		sold, err = s.naive(ctx)
		return err
	})
	return sold, err
}

// stopped is locked with some buyers that stand still while they hold the lock.
func (s shop) stopped(ctx context.Context) (bool, error) {
	return s.sell(ctx, func(*rlock.Hold) error { return s.take(ctx) })
}

// guarded is stopped, and takes the item only while the buyer has the lock.
func (s shop) guarded(ctx context.Context) (bool, error) {
	return s.sell(ctx, func(hold *rlock.Hold) error {
		_, err := hold.Write(ctx, []string{stock}, []string{"DECR", stock})
		return err
	})
}

var looks atomic.Int64 // that found an item

// sell looks, stands still now and then, and takes.
func (s shop) sell(ctx context.Context, take func(*rlock.Hold) error) (sold bool, err error) {
	hold, err := s.locks.NewLock("example:{flashsale}:lock").Acquire(ctx, rlock.WithLease(lease))
	if err != nil {
		return false, err
	}
	defer func() { _ = hold.Release(ctx) }() // ErrLost, for those that stood still
	if left, err := s.left(ctx); err != nil || left <= 0 {
		return false, err
	}
	if looks.Add(1)%20 == 0 {
		time.Sleep(20 * lease)
	}
	switch err = take(hold); {
	case errors.Is(err, rlock.ErrFenced): // the buyer comes too late
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

var script = rueidis.NewLuaScript(`
	if tonumber(redis.call('get', KEYS[1])) <= 0 then
		return 0
	end
	redis.call('decr', KEYS[1])
	return 1`)

// scripted looks and takes in one command.
func (s shop) scripted(ctx context.Context) (bool, error) {
	return script.Exec(ctx, s.redis, []string{stock}, nil).AsBool()
}

func main() { embedded.Main("flashsale", run) }

func run(ctx context.Context, options rueidis.ClientOption) error {
	var shops []shop
	for range 4 {
		locks, err := rlock.New(rlock.Config{Redis: options})
		if err != nil {
			return err
		}
		defer locks.Close()
		redis, err := rueidis.NewClient(options)
		if err != nil {
			return err
		}
		defer redis.Close()
		shops = append(shops, shop{locks, redis})
	}

	defer func() { shops[0].redis.Do(ctx, shops[0].redis.B().Del().Key(stock).Build()) }()

	fmt.Printf("%d buyers, %d items, %d shops\n\n", buyers, items, len(shops))
	fmt.Printf("%-8s %6s %8s %9s %10s\n", "way", "sold", "left", "time", "commands")
	var sold [5]int64
	for i, way := range []struct {
		name string
		buy  func(shop, context.Context) (bool, error)
	}{
		{"naive", shop.naive},
		{"lock", shop.locked},
		{"script", shop.scripted},
		{"stopped", shop.stopped},
		{"guarded", shop.guarded},
	} {
		result, err := sale(ctx, shops, way.buy)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		verdict := ""
		if result.sold > items {
			verdict = "  oversold"
		}
		fmt.Printf("%-8s %6d %8d %6d ms %10d%s\n", way.name, result.sold, result.left, result.took.Milliseconds(), result.commands, verdict)
		sold[i] = result.sold
		if result.sold+result.left != items {
			return fmt.Errorf("%s: %d sold and %d left of %d", way.name, result.sold, result.left, items)
		}
	}
	fmt.Println("\ncommands are those that Redis executed, what scripts call included")

	switch {
	case sold[0] <= items:
		return errors.New("the naive way was not oversold: did the buyers not meet?")
	case sold[3] <= items:
		return errors.New("the buyers that were stopped have sold nothing")
	case sold[1] != items || sold[2] != items || sold[4] != items:
		return fmt.Errorf("lock sold %d, script %d, guarded %d, of %d", sold[1], sold[2], sold[4], items)
	}
	return nil
}

type result struct {
	sold, left, commands int64
	took                 time.Duration
}

// In sale each shop looks once at an empty stock, which connects it and loads its scripts;
// then it fills the stock, and lets all the buyers in at once.
func sale(ctx context.Context, shops []shop, buy func(shop, context.Context) (bool, error)) (r result, err error) {
	redis := shops[0].redis
	if err := redis.Do(ctx, redis.B().Set().Key(stock).Value("0").Build()).Error(); err != nil {
		return r, err
	}
	for _, s := range shops {
		if _, err := buy(s, ctx); err != nil {
			return r, err
		}
	}
	if err := redis.Do(ctx, redis.B().Set().Key(stock).Value(strconv.Itoa(items)).Build()).Error(); err != nil {
		return r, err
	}
	before, err := executed(ctx, redis)
	if err != nil {
		return r, err
	}
	var (
		group  sync.WaitGroup
		open   = make(chan struct{})
		sold   atomic.Int64
		failed = make(chan error, buyers)
	)
	for b := range buyers {
		group.Go(func() {
			<-open
			got, err := buy(shops[b%len(shops)], ctx)
			if err != nil {
				failed <- err
			}
			if got {
				sold.Add(1)
			}
		})
	}
	began := time.Now()
	close(open)
	group.Wait()
	r.took, r.sold = time.Since(began), sold.Load()
	if len(failed) > 0 {
		return r, <-failed
	}
	after, err := executed(ctx, redis)
	if err != nil {
		return r, err
	}
	r.commands = after - before - 1 // the second look counts the first
	r.left, err = redis.Do(ctx, redis.B().Get().Key(stock).Build()).AsInt64()
	return r, err
}

// executed returns how many commands the server has executed so far.
func executed(ctx context.Context, redis rueidis.Client) (int64, error) {
	stats, err := redis.Do(ctx, redis.B().Info().Section("stats").Build()).ToString()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(stats) {
		if count, ok := strings.CutPrefix(line, "total_commands_processed:"); ok {
			return strconv.ParseInt(strings.TrimSpace(count), 10, 64)
		}
	}
	return 0, errors.New("the server does not count its commands")
}
