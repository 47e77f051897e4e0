package view

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// A Lock is the JSON form of an inspected lock.
type Lock struct {
	Name        string  `json:"name"`
	Kind        string  `json:"kind,omitempty"` // "lock", "read-write" or "semaphore"
	Held        bool    `json:"held"`
	LeaseMS     *int64  `json:"lease_ms,omitempty"` // the rest of the lease; -1 without an end
	Token       uint64  `json:"token,omitempty"`
	HolderCount int     `json:"holder_count"`
	Holders     []Party `json:"holders"`
	Waiting     int     `json:"waiting"`
	Queue       []Party `json:"queue"`
	Foreign     *int    `json:"foreign,omitempty"` // the number of clients of Redisson that wait
	Unresolved  string  `json:"unresolved,omitempty"`
}

// A Party is a holder or a waiter.
type Party struct {
	Owner   string `json:"owner,omitempty"`
	Note    string `json:"note,omitempty"`   // the text of WithNote
	Line    string `json:"line,omitempty"`   // the line of WithLine in which a waiter stands
	Since   string `json:"since,omitempty"`  // the time at which the hold began, or the waiter's call
	Waited  bool   `json:"waited,omitempty"` // since is when the call of the holder began to wait
	Count   int64  `json:"count,omitempty"`
	LeaseMS *int64 `json:"lease_ms,omitempty"` // the rest of the lease of a holder of a semaphore
	Mode    string `json:"mode"`               // the mode: "exclusive", "shared" or "permit"
	Permits int    `json:"permits,omitempty"`  // the number of permits that it has, or waits for
	Passed  bool   `json:"passed,omitempty"`   // the lock is passed on, until it is resumed or the lease ends
	Foreign bool   `json:"foreign,omitempty"`
	Polls   bool   `json:"polls,omitempty"`
	Program string `json:"program,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Addr    string `json:"addr,omitempty"`
}

// WriteJSON writes a lock as one line.
func WriteJSON(w io.Writer, i inspect.Lock) error { return json.NewEncoder(w).Encode(LockOf(i)) }

// LockOf returns the JSON form of a lock.
func LockOf(i inspect.Lock) Lock {
	lock := Lock{
		Name: i.Name, Kind: string(i.Kind), Held: i.HolderCount > 0, Token: i.Token,
		HolderCount: i.HolderCount, Waiting: i.Waiting,
		Holders: make([]Party, 0, len(i.Holders)), Queue: make([]Party, 0, len(i.Queue)),
	}
	if lock.Held {
		ms := int64(-1)
		if i.Lease >= 0 {
			ms = i.Lease.Milliseconds()
		}
		lock.LeaseMS = &ms
	}
	if i.Foreign >= 0 {
		lock.Foreign = &i.Foreign
	}
	if i.Unresolved != nil {
		lock.Unresolved = i.Unresolved.Error()
	}
	for _, h := range i.Holders {
		p := party(h.Owner, h.Note, h.Since, mode(i, h.Shared), h.Process)
		p.Count, p.Permits, p.Passed, p.Foreign, p.Waited = h.Count, h.Permits, h.Passed, h.Foreign, h.Waited
		if i.Kind == rlock.KindSemaphore {
			ms := h.Lease.Milliseconds()
			p.LeaseMS = &ms
		}
		lock.Holders = append(lock.Holders, p)
	}
	for _, q := range i.Queue {
		p := party(q.Owner, q.Note, q.Since, mode(i, q.Shared), q.Process)
		p.Permits, p.Polls, p.Foreign, p.Line = q.Permits, q.Polls, q.Foreign, q.Line
		lock.Queue = append(lock.Queue, p)
	}
	return lock
}

func party(owner, note string, since time.Time, mode string, process *inspect.Process) Party {
	p := Party{Owner: owner, Note: note, Mode: mode}
	if !since.IsZero() {
		p.Since = since.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	if process != nil {
		p.Program, p.Host, p.PID, p.Addr = process.Program, process.Host, process.PID, process.Addr
	}
	return p
}

// permits returns the number of permits that are held, counting one for each owner that is not
// shown.
func permits(i inspect.Lock) int {
	n := i.HolderCount - len(i.Holders)
	for _, h := range i.Holders {
		n += h.Permits
	}
	return n
}

// permitted returns the mode of a party that has so many permits, or waits for them.
func permitted(i inspect.Lock, shared bool, permits int) string {
	if permits > 1 {
		return fmt.Sprintf("%d permits", permits)
	}
	return mode(i, shared)
}

func mode(i inspect.Lock, shared bool) string {
	switch {
	case i.Kind == rlock.KindSemaphore:
		return "permit"
	case shared:
		return "shared"
	}
	return "exclusive"
}

// Rounded formats a duration for people, and a negative one as "without end".
func Rounded(d time.Duration) string {
	switch {
	case d < 0:
		return "without end"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
