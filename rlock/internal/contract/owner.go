package contract

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/petermattis/goid"
)

// An Owner is the holder of a lock: see package rlock. The zero Owner is no owner.
type Owner struct {
	ID uint64
	// Guest is set for a call in the name of the owner that does not come from the owner itself,
	// but has the context of one of its holds. A guest nests in the owner's holds. Levels of guests
	// do not make the owner a holder: when the owner's own levels are closed, its calls wait for
	// the guests.
	Guest bool
}

// Goroutine ids count up from 1 and are never reused, so that the numbers above them are free:
// NewOwner counts from firstOwner, and owners that belong to one handle from firstHandle. All are
// below 1<<53, so that a JSON parser that reads numbers as floats keeps them.
const (
	firstOwner  = 1 << 48
	firstHandle = 1 << 52
)

// lastOwner and lastHandle are the numbers of the owners made last. Each process counts from a
// random number, so that two servers that show the same number show the same owner: see
// composite/force.go.
var lastOwner, lastHandle atomic.Uint64

func init() {
	lastOwner.Store(firstOwner + rand.Uint64N(1<<51))
	lastHandle.Store(firstHandle + rand.Uint64N(1<<51))
}

// NewOwner returns an owner that no other call returns in this process. It may be called
// concurrently.
func NewOwner() Owner { return Owner{ID: lastOwner.Add(1)} }

// NewHandleOwner returns the owner of one Hold.
func NewHandleOwner() Owner { return Owner{ID: lastHandle.Add(1)} }

// OfHandle reports whether o belongs to one Hold alone.
func (o Owner) OfHandle() bool { return o.ID >= firstHandle }

// IsNamed reports whether a program has made the owner: it is neither a goroutine nor the owner of
// one handle.
func (o Owner) IsNamed() bool { return o.ID >= firstOwner && !o.OfHandle() }

// Goroutine returns the id of the owner's goroutine, 0 if the owner is no goroutine.
func (o Owner) Goroutine() uint64 {
	if o.ID < firstOwner {
		return o.ID
	}
	return 0
}

// Words describes the owner as its program knows it.
func (o Owner) Words() string {
	if o.Guest {
		return "a call with the context of " + Owner{ID: o.ID}.Words()
	}
	if o.OfHandle() {
		return "a Hold"
	}
	return o.Title()
}

// Title describes the owner with its number.
func (o Owner) Title() string {
	if o.Goroutine() == 0 {
		return "owner " + o.String()
	}
	return "goroutine " + o.String()
}

// String returns the number as Redis has it.
func (o Owner) String() string { return strconv.FormatUint(o.ID, 10) }

// MarshalText returns what String returns, for logs in JSON.
func (o Owner) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, o.ID, 10), nil }

// goidKnows reports whether goid knows this Go version. It reads the id from the runtime's own
// structure, and with a wrong number one goroutine could use another's lock.
var goidKnows = uint64(goid.Get()) == PrintedGoroutineID()

// GoroutineID returns the id of the calling goroutine.
func GoroutineID() uint64 {
	if goidKnows {
		return uint64(goid.Get())
	}
	return PrintedGoroutineID()
}

// Caller returns the id of the calling goroutine if it costs nothing to know, else 0.
func Caller() uint64 {
	if goidKnows {
		return uint64(goid.Get())
	}
	return 0
}

// PrintedGoroutineID returns the id that the runtime prints: right with every Go version, but it
// takes a microsecond.
func PrintedGoroutineID() uint64 {
	var stack [64]byte
	fields := bytes.Fields(stack[:runtime.Stack(stack[:], false)]) // "goroutine 1 [running]:"
	id, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		panic("rlock: the runtime prints no goroutine id: " + err.Error())
	}
	return id
}

// A Site is the place in the program at which a lock was taken. The zero Site is an unknown place.
type Site struct {
	Function string // the name of the function, with the path of its package
	File     string
	Line     int
}

// String returns "file:line function", and "" for the zero Site.
func (p Site) String() string {
	if p == (Site{}) {
		return ""
	}
	return fmt.Sprintf("%s:%d %s", p.File, p.Line, p.Function)
}

const (
	// publicCode and internalCode begin the names of rlock's functions.
	publicCode, internalCode = "github.com/go-rlock/rlock/rlock.", "github.com/go-rlock/rlock/rlock/internal/"
	// ownDepth is the largest number of functions of rlock that a call for a lock goes through.
	ownDepth = 16
)

// Here returns the place in the program that calls rlock, or nil in a goroutine that rlock has
// started.
func Here() *Site {
	var stack [ownDepth]uintptr
	frames := runtime.CallersFrames(stack[:runtime.Callers(1, stack[:])])
	for {
		frame, more := frames.Next()
		if frame.Function != "" && !isOwn(frame.Function) {
			return &Site{Function: frame.Function, File: frame.File, Line: frame.Line}
		}
		if !more {
			return nil
		}
	}
}

func isOwn(function string) bool {
	return strings.HasPrefix(function, publicCode) || strings.HasPrefix(function, internalCode) || strings.HasPrefix(function, "runtime.")
}

// Known returns the site, or the zero Site for nil.
func Known(p *Site) Site {
	if p == nil {
		return Site{}
	}
	return *p
}
