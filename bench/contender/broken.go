package contender

import (
	"context"
	"sync"
)

// Broken grants every lock at once. It is not one of All: with it the tests prove that the
// harness catches a lock that does not exclude.
func Broken() Contender {
	return Contender{
		Name:  "broken",
		About: "always says yes: the harness must report it",
		Wakes: "never sleeps",
		Key:   plain,
		Open:  func(Config) (Client, error) { return broken{}, nil },
	}
}

type broken struct{}

func (broken) Mutex(string) Mutex         { return broken{} }
func (broken) Reader(string) Mutex        { return broken{} }
func (broken) Close() error               { return nil }
func (broken) Lock(context.Context) error { return nil }
func (broken) Unlock() error              { return nil }

// Deaf excludes, within one client, but waiters are never woken, and each held lock costs a
// goroutine. It is not one of All either: the harness must catch that too.
func Deaf() Contender {
	return Contender{
		Name:  "deaf",
		About: "never wakes a waiter: the harness must report it",
		Wakes: "nothing",
		Key:   plain,
		Open:  func(Config) (Client, error) { return &deaf{}, nil },
	}
}

type deaf struct{ locks sync.Map }

func (d *deaf) Mutex(name string) Mutex {
	lock, _ := d.locks.LoadOrStore(name, new(deafMutex))
	return lock.(*deafMutex)
}

func (d *deaf) Close() error { return nil }

type deafMutex struct {
	mutex sync.Mutex    // locked while it is held
	freed chan struct{} // closed by Unlock
}

func (m *deafMutex) Lock(ctx context.Context) error {
	if m.mutex.TryLock() {
		freed := make(chan struct{})
		m.freed = freed
		go func() { <-freed }()
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (m *deafMutex) Unlock() error {
	close(m.freed)
	m.mutex.Unlock()
	return nil
}
