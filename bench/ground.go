package main

import (
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A ground is the data that the locks of a measurement protect: memory that all its processes map,
// with a place for each lock. It shows every overlap of sections, independently of the lock.
type ground struct{ places []place }

// A place is as large as a cache line, so that locks do not disturb each other. Redisson's worker
// has the same layout.
type place struct {
	inside  atomic.Int64 // sections under way: readers, and writers times alone
	entered atomic.Int64 // sections ever begun
	last    atomic.Int64 // the process that entered last, plus one
	freed   atomic.Int64 // when the last unlock began, in Unix nanoseconds
	_       [4]int64
}

// alone is what an exclusive section adds to inside: more than there are readers.
const alone = 1 << 32

// createGround makes a file for that number of locks, and returns its path. The caller removes it.
func createGround(locks int) (path string, err error) {
	file, err := os.CreateTemp("", "rlock-bench-ground-")
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	return file.Name(), file.Truncate(int64(locks) * int64(unsafe.Sizeof(place{})))
}

// openGround maps a file that createGround made.
func openGround(path string, locks int) (*ground, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	memory, err := unix.Mmap(int(file.Fd()), 0, locks*int(unsafe.Sizeof(place{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("bench: ground: %w", err)
	}
	return &ground{unsafe.Slice((*place)(unsafe.Pointer(&memory[0])), locks)}, nil
}

// enter begins a section, and reports whether another that excludes it was under way.
func (p *place) enter(shared bool) (overlaps bool) {
	p.entered.Add(1)
	if shared {
		return p.inside.Add(1) >= alone
	}
	return p.inside.Add(alone) != alone
}

// takeOver notes the process of an exclusive section that begins. If the last one was another
// process's, and this process waited since before that one began its unlock, it returns the time
// from there, and otherwise 0.
func (p *place) takeOver(process int, since time.Time) (handover time.Duration) {
	before := p.last.Swap(int64(process) + 1)
	if freed := p.freed.Load(); before != 0 && before != int64(process)+1 && since.UnixNano() < freed {
		return time.Duration(time.Now().UnixNano() - freed)
	}
	return 0
}

// leave ends a section; the unlock is next.
func (p *place) leave(shared bool) {
	if shared {
		p.inside.Add(-1)
		return
	}
	p.freed.Store(time.Now().UnixNano())
	p.inside.Add(-alone)
}

// turnOf reports whether process may take the lock when processes take turns: the first begins.
func (p *place) turnOf(process int) bool {
	last := int(p.last.Load()) - 1
	return last != process && (last >= 0 || process == 0)
}

// entered returns how many sections of all locks have begun.
func (g *ground) entered() (n int64) {
	for i := range g.places {
		n += g.places[i].entered.Load()
	}
	return n
}

// A histogram counts durations in buckets, 64 for each power of two of nanoseconds: a bucket is as
// wide as 1.6 % of its durations at most. It travels as JSON.
type histogram [2048]int64

func (h *histogram) record(d time.Duration) {
	v := uint64(min(max(d, 0), 2*time.Minute))
	e := max(0, bits.Len64(v)-7)
	h[e*64+int(v>>e)]++
}

func (h *histogram) add(other *histogram) {
	for i := range h {
		h[i] += other[i]
	}
}

func (h *histogram) count() (n int64) {
	for i := range h {
		n += h[i]
	}
	return n
}

// at returns the quantile q, in the middle of its bucket, and 0 without durations.
func (h *histogram) at(q float64) time.Duration {
	left := int64(q * float64(h.count()))
	for i, n := range h {
		if left -= n; left < 0 {
			e := max(0, i/64-1)
			return time.Duration(i-e*64)<<e + time.Duration(1)<<e/2
		}
	}
	return 0
}
