package worker

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Ground is the data that the locks of a measurement protect: memory that all its processes
// map, with a place for each lock. It detects every overlap of sections, independently of the
// lock. Its methods may be called concurrently.
type Ground struct {
	memory []byte
	places []place
}

// A place is as large as a cache line, so that locks do not disturb each other.
type place struct {
	inside  atomic.Int64 // sections under way: readers, and writers times alone
	entered atomic.Int64 // sections ever begun
	last    atomic.Int64 // the process that entered last, plus one
	freed   atomic.Int64 // when the last Unlock began, in Unix nanoseconds
	_       [4]int64
}

// alone is what an exclusive section adds to inside: more than there are readers.
const alone = 1 << 32

// CreateGround makes a file for that number of locks, and returns its path. The caller
// removes it.
func CreateGround(locks int) (path string, err error) {
	file, err := os.CreateTemp("", "rlock-bench-ground-")
	if err != nil {
		return "", fmt.Errorf("worker: ground: %w", err)
	}
	err = file.Truncate(int64(locks) * int64(unsafe.Sizeof(place{})))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", fmt.Errorf("worker: ground: %w", err)
	}
	return file.Name(), nil
}

// OpenGround maps a file that CreateGround made.
func OpenGround(path string, locks int) (*Ground, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("worker: ground: %w", err)
	}
	defer func() { _ = file.Close() }()
	memory, err := unix.Mmap(int(file.Fd()), 0, locks*int(unsafe.Sizeof(place{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("worker: ground: %w", err)
	}
	// The mapping begins at a page, which is more than a place needs.
	return &Ground{memory, unsafe.Slice((*place)(unsafe.Pointer(&memory[0])), locks)}, nil
}

// Close unmaps the memory.
func (g *Ground) Close() error { return unix.Munmap(g.memory) }

// Share begins a section that readers may share, and reports whether an exclusive one was
// under way.
func (g *Ground) Share(lock int) (overlaps bool) {
	p := &g.places[lock]
	overlaps = p.inside.Add(1) >= alone
	p.entered.Add(1)
	return overlaps
}

// Unshare ends what Share began.
func (g *Ground) Unshare(lock int) { g.places[lock].inside.Add(-1) }

// Enter begins a section of lock, and reports whether another was under way. If the last
// section was another process's, and this process waited since before that one began its
// Unlock, handover is the time from there; otherwise it is 0.
func (g *Ground) Enter(lock, process int, since time.Time) (handover time.Duration, overlaps bool) {
	p := &g.places[lock]
	overlaps = p.inside.Add(alone) != alone
	p.entered.Add(1)
	before := p.last.Swap(int64(process) + 1)
	if freed := p.freed.Load(); before != 0 && before != int64(process)+1 && since.UnixNano() < freed {
		handover = time.Duration(time.Now().UnixNano() - freed)
	}
	return handover, overlaps
}

// Leave ends a section; the Unlock is next.
func (g *Ground) Leave(lock int) {
	p := &g.places[lock]
	p.freed.Store(time.Now().UnixNano())
	p.inside.Add(-alone)
}

// Last returns the process that entered last, -1 if none has.
func (g *Ground) Last(lock int) int { return int(g.places[lock].last.Load()) - 1 }

// EnteredOf returns how many sections of one lock have begun.
func (g *Ground) EnteredOf(lock int) int64 { return g.places[lock].entered.Load() }

// Entered returns how many sections of all locks have begun.
func (g *Ground) Entered() (n int64) {
	for i := range g.places {
		n += g.places[i].entered.Load()
	}
	return n
}
