package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
)

// An account has its balance in a key beside its lock.
type account struct {
	lock  *rlock.Lock
	redis rueidis.Client
}

var errTooLittle = errors.New("the balance is too small")

// withdraw takes an amount if the account has as much and the customer confirms.
func (a account) withdraw(ctx context.Context, amount int64, confirm func(left int64) error) (err error) {
	balance := a.lock.Key("balance") // in a Cluster a guarded key must be in the lock's slot
	hold, err := a.lock.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Release(ctx)) }()
	left, err := a.redis.Do(ctx, a.redis.B().Get().Key(balance).Build()).AsInt64()
	if err != nil {
		return err
	}
	if left < amount {
		return errTooLittle
	}
	if err := confirm(left); err != nil { // no script can do this
		return err
	}
	_, err = hold.Write(ctx, []string{balance}, []string{"DECRBY", balance, fmt.Sprint(amount)})
	return err // with ErrFenced nothing was written, and hold.Context() has ended
}

// bare is withdraw with a write that nothing guards: Redis executes it even if another process has the lock.
func (a account) bare(ctx context.Context, amount int64, confirm func(left int64) error) error {
	balance := a.lock.Key("balance")
	return a.lock.Do(ctx, func(context.Context) error {
		left, err := a.redis.Do(ctx, a.redis.B().Get().Key(balance).Build()).AsInt64()
		if err != nil {
			return err
		}
		if left < amount {
			return errTooLittle
		}
		if err := confirm(left); err != nil {
			return err
		}
		// It could ask whether the hold is valid, and be stopped after the answer.
		return a.redis.Do(ctx, a.redis.B().Decrby().Key(balance).Decrement(amount).Build()).Error()
	})
}
