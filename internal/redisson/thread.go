package redisson

import (
	"encoding/json"
	"fmt"
)

// A Thread is a Java thread: for Redisson, with its process, the identity of whom
// a lock belongs to. It executes one call at a time, in the order in which they
// are made; each method returns when its call has. IsAsleep is about the call under way.
type Thread struct {
	process *Process
	name    string
	kind    Kind
}

// A Kind is one of Redisson's kinds of lock, or of its other synchronizers.
type Kind string

// The kinds, with what makes them.
const (
	Plain  Kind = ""       // getLock
	Fenced Kind = "fenced" // getFencedLock
	Fair   Kind = "fair"   // getFairLock
	Spin   Kind = "spin"   // getSpinLock
	Read   Kind = "read"   // getReadWriteLock(...).readLock
	Write  Kind = "write"  // getReadWriteLock(...).writeLock

	Semaphore Kind = "semaphore" // getSemaphore
	Permits   Kind = "permits"   // getPermitExpirableSemaphore
	Latch     Kind = "latch"     // getCountDownLatch
)

// Thread returns the thread of that name, the same one each time.
func (p *Process) Thread(name string) Thread { return Thread{process: p, name: name} }

// With returns the same thread, whose calls are about locks of that kind.
func (t Thread) With(k Kind) Thread {
	t.kind = k
	return t
}

// Do calls a method of the lock of that name, and lockAndGetToken and the like where there is one. The
// arguments are numbers and strings, the last of them [Milliseconds] where the method takes a unit. It
// returns the value as JSON, null if there is none.
func (t Thread) Do(method, name string, args ...any) (string, error) {
	text, err := ask[json.RawMessage](t, command{Call: method, Name: name, Args: args})
	return string(text), err
}

// Milliseconds is the TimeUnit of that name.
const Milliseconds = "MILLISECONDS"

// IsAsleep says whether the thread waits for a lock's message, or for the end of its
// lease, and does nothing else until then.
func (t Thread) IsAsleep() (bool, error) {
	return ask[bool](t, command{Call: "isAsleep"})
}

// ask makes a call and returns its value.
func ask[T any](t Thread, c command) (value T, err error) {
	c.Thread, c.Kind = t.name, t.kind
	text, err := t.process.call(c)
	if err != nil {
		return value, err
	}
	if text == nil {
		text = json.RawMessage("null")
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return value, fmt.Errorf("redisson: %s of %q answered %s: %w", c.Call, c.Name, text, err)
	}
	return value, nil
}
