package main

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
)

// A document is kept in a key beside its lock, by all machines together.
type document struct {
	lock  *rlock.Lock
	redis rueidis.Client
	key   string // of lock.Key
}

// edit changes the document.
func (d document) edit(ctx context.Context, change func(string) (string, error), o ...rlock.AcquireOption) (err error) {
	hold, err := d.lock.Acquire(ctx, o...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Release(ctx)) }()
	text, err := d.redis.Do(ctx, d.redis.B().Get().Key(d.key).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	if text, err = change(text); err != nil {
		return err
	}
	_, err = hold.Write(ctx, []string{d.key}, []string{"SET", d.key, text})
	return err // ErrFenced: nothing was written. ErrUnconfirmed: read the document again
}
