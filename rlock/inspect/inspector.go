package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/monitor"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// An Inspector shows the state of locks as one client sees it. Its methods may be called
// concurrently.
type Inspector struct {
	driver *driver.Client
	prefix string // the prefix of the names in Redis
}

// Of returns the inspector of a client, and panics for a nil one. It sends no command, and needs no
// Close.
func Of(client *rlock.Client) Inspector {
	d, prefix := driver.ClientOf(client)
	return Inspector{d, prefix}
}

// ID returns the prefix of the UUIDs of all locks that the client holds: [Holder].Owner begins with
// it. By it you find the process of a lock's hash in Redis.
func (i Inspector) ID() string { return i.driver.ID.Prefix }

// Lock returns the state in Redis of the lock of that name, of any kind. It only reads, in one
// round trip, and in a second one for the processes of holders and waiters, which may be a second
// old. It is no transaction: a lock that is handed over meanwhile may be shown with its last holder
// and its next queue.
//
// It fails with [rlock.ErrWrongType] if the key of the name, or of its queue, is something other
// than a lock, and with [rlock.ErrNoPermission] without the rights in docs/operations.md. It
// returns no error if only processes, foreign clients or tokens could not be read.
func (i Inspector) Lock(ctx context.Context, name string) (Lock, error) {
	keys, err := i.keysOf(name)
	if err != nil {
		return Lock{}, err
	}
	found, err := read(ctx, i.driver.Redis, keys)
	if err != nil {
		return Lock{}, fmt.Errorf("rlock: inspect %q: %w", name, err)
	}
	found.Name = name
	return found, nil
}

// ForceUnlock releases by force the holders that shown has, and no others: for an operator who has
// looked at a lock, and decides. It reports whether it has released a holder. Otherwise it is like
// rlock.Lock.ForceUnlock. It releases no lock that another owner has meanwhile acquired, that was
// handed off inside a process, or that was passed on, and no readers once there is a writer. The
// readers of a process are one holder, so a reader that has come meanwhile loses the lock as well.
// A thread of Redisson that has acquired the lock anew also loses it, since its owner is the same
// each time.
func (i Inspector) ForceUnlock(ctx context.Context, shown Lock) (bool, error) {
	var owners []wire.OwnerText
	for _, h := range shown.Holders {
		owners = append(owners, h.text())
	}
	l := i.lockOf(shown)
	return l.ForceUnlockOf(ctx, owners)
}

// HolderOf returns the holder that the error of a refused call, such as rlock.ErrNotAcquired,
// knows: its Owner, Note, Since, Waited, Passed, Foreign and Process. ok is false if the error
// knows no holder. Of a semaphore, and of several readers, it is one of the holders.
func HolderOf(err error) (h Holder, ok bool) {
	held := (*wire.HeldError)(nil)
	if !errors.As(err, &held) {
		return h, false
	}
	text, _ := held.Holder.CutWrite()
	text, more := text.CutMore()
	h = h.of(text)
	h.Process = (*Process)(held.Process)
	if more > 0 {
		h.Permits = int(more) + 1
	}
	return h, true
}

// lockOf returns the lock that was shown. A fenced or fair lock is shown as a plain one.
func (i Inspector) lockOf(shown Lock) driver.NamedLock {
	key := i.keyOf(shown.Name)
	switch {
	case shown.Kind == rlock.KindSemaphore:
		return driver.NewSemaphore(i.driver, key, 1) // the number does not matter, since no permit is acquired
	case shown.Kind != KindReadWrite:
		return driver.NewLock(i.driver, driver.PlainKind, key)
	}
	l := driver.NewLock(i.driver, driver.ReadWriteKind, key)
	if !slices.ContainsFunc(shown.Holders, func(h Holder) bool { return !h.Shared }) {
		return l.ForReaders()
	}
	return l
}

// Locks iterates over the names of the locks that are held, of any kind and by any client,
// Redisson's included. The names match a pattern of Redis' KEYS ("orders:*"); "" matches all. It
// reads the keyspace in pages (SCAN), of all primaries of a Cluster. A lock that is held all the
// time is among the names, unless its slot migrates meanwhile; a name may come twice. After an
// error, which comes with an empty name, it yields nothing more. The error is
// [rlock.ErrUnsupported] for a server older than Redis 6.2.
func (i Inspector) Locks(ctx context.Context, pattern string) iter.Seq2[string, error] {
	if pattern == "" {
		pattern = "*"
	}
	inRedis := wire.Literal(i.prefix) + pattern
	return func(yield func(string, error) bool) {
		for key, err := range heldKeys(ctx, i.driver.Redis, inRedis) {
			if err != nil {
				err = fmt.Errorf("rlock: list locks %q: %w", pattern, err)
			}
			if !yield(i.named(key), err) {
				return
			}
		}
	}
}

// keyOf returns the key of the lock of that name. An empty name stays empty, which no lock can
// have.
func (i Inspector) keyOf(name string) string {
	if name == "" {
		return ""
	}
	return i.prefix + name
}

// named returns the name of the lock with that key, and the key if it has another prefix.
func (i Inspector) named(key string) string { return strings.TrimPrefix(key, i.prefix) }

// Held returns the locks that the client holds, the longest held first, and by name where the times
// are equal: one for each owner of each lock. A multi or red lock is listed by its parts. Held is
// for people and tests: it sends no command, but looks at every lock.
func (i Inspector) Held() []Held {
	uses := monitor.Uses(i.driver, false)
	held := make([]Held, len(uses))
	for at := range uses {
		u := &uses[at]
		held[at] = Held{
			Name: i.named(u.Name), Kind: u.Kind, Owner: rlock.Owner(u.Owner), Since: u.Since, ValidUntil: u.ValidUntil,
			Depth: u.Depth, Permits: u.Permits, PartOf: u.PartOf, Note: u.Note, Site: Site(u.Site),
		}
	}
	return held
}

// A Held is a lock that a client holds.
type Held struct {
	Name  string
	Kind  rlock.Kind
	Owner rlock.Owner
	// Since is the time at which the owner acquired the lock, by the monotonic clock: it is too
	// late if the machine has slept since.
	Since time.Time
	// ValidUntil is the time until which the lock is certainly held, as Redis has confirmed so far:
	// see Hold.ValidUntil.
	ValidUntil time.Time
	Depth      int // the number of times that the owner has to unlock the lock
	Permits    int // the number of permits of a semaphore that the owner has taken; 0 for other locks
	// PartOf is the name of the multi or red lock as whose part the lock is held, or "". It is also
	// "" while that lock is still being acquired.
	PartOf string
	Note   string // the text of rlock.WithNote, or ""
	Site   Site   // the place in the program at which the lock was acquired, if Config.RecordSites is set
}

// A Site is the place in the program at which a lock was taken. The zero Site is an unknown place.
type Site struct {
	Function string // the name of the function, with the path of its package
	File     string
	Line     int
}

// String returns "file:line function", and "" for the zero Site.
func (p Site) String() string { return contract.Site(p).String() }
