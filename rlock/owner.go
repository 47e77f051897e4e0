package rlock

import (
	"bytes"
	"encoding/hex"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/petermattis/goid"
)

// An Owner is the holder of a lock, which may lock it again without waiting. By
// default it is the calling goroutine; [WithOwner] makes it travel with a
// context instead. In Redis it is the number behind the colon of the hash's
// field, where Redisson has the thread id. The zero Owner is nobody.
type Owner struct{ id uint64 }

// Goroutine ids count up from 1 and are never reused, so that the numbers above
// them are free: firstOwner is where NewOwner begins, firstHandle where the
// owners begin that belong to one handle and to nobody's code.
const (
	firstOwner  = 1 << 48
	firstHandle = 1 << 56
)

var ownersMade, handlesMade atomic.Uint64

// NewOwner returns an owner that no other call returns in this process. It may
// be called concurrently.
func NewOwner() Owner { return Owner{firstOwner + ownersMade.Add(1)} }

// newHandleOwner returns the owner of one Hold that nothing nests in.
func newHandleOwner() Owner { return Owner{firstHandle + handlesMade.Add(1)} }

// ofHandle reports whether o belongs to one Hold alone.
func (o Owner) ofHandle() bool { return o.id >= firstHandle }

// String returns the number as it stands in Redis.
func (o Owner) String() string { return strconv.FormatUint(o.id, 10) }

// MarshalText returns what String returns, so that JSON and structured logs show the
// owner. It never fails.
func (o Owner) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, o.id, 10), nil }

// goidKnows reports whether goid knows this Go version: it reads the id from the runtime's
// own structure, and a wrong number would let one goroutine into another's lock.
var goidKnows = uint64(goid.Get()) == printedGoroutineID()

// goroutineID returns the id of the calling goroutine.
func goroutineID() uint64 {
	if goidKnows {
		return uint64(goid.Get())
	}
	return printedGoroutineID()
}

// printedGoroutineID is the id that the runtime prints: right with every Go version, but it
// takes a microsecond.
func printedGoroutineID() uint64 {
	var stack [64]byte
	fields := bytes.Fields(stack[:runtime.Stack(stack[:], false)]) // "goroutine 1 [running]:"
	id, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		panic("rlock: the runtime prints no goroutine id: " + err.Error())
	}
	return id
}

// A clientID makes the UUIDs of one client's tenures. Each tenure has its own, so
// that a command that arrives late, from a connection long dead, can never touch
// a later tenure. The UUIDs are of version 8 (RFC 9562, 5.8): the first three
// groups are the client's, the others count its tenures from a random start.
type clientID struct {
	prefix string // "xxxxxxxx-xxxx-8xxx-"
	last   atomic.Uint64
}

func newClientID() *clientID {
	random := uuid.New()
	random[6] = 0x80 | random[6]&0x0f
	id := &clientID{prefix: random.String()[:19]}
	var start uint64
	for _, b := range random[8:] {
		start = start<<8 | uint64(b)
	}
	id.last.Store(start)
	return id
}

// owner returns "<uuid>:<id>" with the UUID of a new tenure: 36 characters and a
// colon that stand for the tenure, then the owner.
func (c *clientID) owner(o Owner) string {
	n := c.last.Add(1)
	n = n&^(0b11<<62) | 0b10<<62 // the variant that RFC 9562 asks for
	var raw [8]byte
	for i := range raw {
		raw[i] = byte(n >> (56 - 8*i))
	}
	buf := make([]byte, 0, 64)
	buf = append(buf, c.prefix...)
	buf = hex.AppendEncode(buf, raw[:2])
	buf = append(buf, '-')
	buf = hex.AppendEncode(buf, raw[2:])
	buf = append(buf, ':')
	return string(strconv.AppendUint(buf, o.id, 10))
}

// isOurs reports whether an owner in Redis is one of rlock's, of any client, by the
// version of its UUID. Redisson's are of version 4.
func isOurs(owner string) bool { return len(owner) > 14 && owner[14] == '8' }

// tenureLen is the length of the part of an owner's text that stands for the
// tenure: the UUID and the colon.
const tenureLen = 37
