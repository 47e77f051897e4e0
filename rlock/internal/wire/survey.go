package wire

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Survey sends commands that change nothing about a lock, in one pipeline to the node that
// serves its slot, and returns their replies. An error that is a server's answer stands in the
// replies; faults that pass are tried again, for as long as a caller of Unlock would wait.
//
// Its commands are arbitrary ones, since rueidis repeats those that it knows to be harmless
// until their context ends, each time with a slot in the ring.
func (r *Redis) Survey(ctx context.Context, slot uint16, commands ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	if r.ctx.Err() != nil {
		return nil, ErrClosed
	}
	for i := range commands {
		commands[i] = commands[i].Pin() // they may be sent several times
	}
	caller := ctx
	ctx, cancel := r.Within(caller)
	defer cancel()
	var last error // of the attempts so far
	for retry := FirstRetry; ; retry = min(2*retry, LastRetry) {
		replies, err := r.surveyOnce(ctx, slot, commands)
		if err == nil {
			err = passing(replies)
		}
		switch {
		case err == nil:
			return replies, nil
		case caller.Err() != nil:
			return nil, TimeUp(caller, last) // the caller's own, which must not be taken for that of ctx
		case ctx.Err() != nil && last != nil:
			return nil, last
		case ctx.Err() != nil:
			return nil, ErrNoAnswer
		case r.ctx.Err() != nil:
			return nil, ErrClosed
		}
		last = Explain(err)
		select {
		case <-time.After(Jitter(retry)):
		case <-ctx.Done():
		}
	}
}

// passing returns the first error among the replies that may pass by itself.
func passing(replies []rueidis.RedisResult) error {
	for _, reply := range replies {
		if err := reply.Error(); err != nil && !rueidis.IsRedisNil(err) {
			if f, err := Diagnose(err); f != Never {
				return err
			}
		}
	}
	return nil
}

// surveyOnce is one attempt of Survey. It returns when ctx ends, but the pipeline keeps
// its slot until it has ended: rueidis keeps it in its ring for as long.
func (r *Redis) surveyOnce(ctx context.Context, slot uint16, commands []rueidis.Completed) ([]rueidis.RedisResult, error) {
	limit, err := r.Limits(slot).Asks.Enter(ctx, r.ctx.Done())
	if err != nil {
		return nil, err
	}
	return inBackground(ctx, r, limit, func() []rueidis.RedisResult {
		r.sent.n.Add(int64(len(commands)))
		replies := r.Client.DoMulti(r.deadline.context(time.Now()), commands...)
		if Answered(replies[0].Error()) {
			limit.Heard()
		}
		return replies
	})
}

// A background is the goroutines that work for a client in the background. Close waits for
// them. The zero value is ready for use.
type background struct {
	mu      sync.Mutex // protects following
	closed  bool
	running sync.WaitGroup // only Add needs the mutex
}

// start calls work in a goroutine of its own, and reports whether it did: one that
// is closed starts nothing.
func (b *background) start(work func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Go(work)
	}
	return !b.closed
}

// close returns when all goroutines have ended. None is started after it was called.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}

// inBackground returns the result of work, or an error once ctx ends: the work goes on then,
// and keeps its slot until it has ended.
func inBackground[T any](ctx context.Context, r *Redis, limit *Limit, work func() T) (result T, err error) {
	landed := make(chan T, 1)
	started := r.background.start(func() {
		defer limit.Leave()
		landed <- work()
	})
	if !started {
		limit.Leave()
		return result, ErrClosed
	}
	select {
	case result = <-landed:
		return result, nil
	case <-ctx.Done():
		return result, fmt.Errorf("no answer: %w", ctx.Err())
	}
}

// listTime is how old the list of the connections of a node may be.
const listTime = time.Second

// A Process is one that has a client of rlock, as the client name of its connection says.
type Process struct {
	Program string // the base name of its file
	Host    string // its own name for its machine, or container
	PID     int    // as the process itself sees it
	Addr    string // where its connection comes from, as Redis sees it: "10.0.0.7:51234"
}

// String returns "orders@host[4711]".
func (p Process) String() string { return fmt.Sprintf("%s@%s[%d]", p.Program, p.Host, p.PID) }

// Processes are those that are connected with one node, by the ids of their clients.
type Processes struct {
	readAt time.Time
	byID   map[string]Process
	Err    error // why byID is empty
}

// clientLists keeps the processes of each node for a moment, so that many questions in a row cost one
// CLIENT LIST: it has a line for each connection of the server.
type clientLists struct {
	lock   Limit                 // of one slot, which protects following
	byNode map[uint32]*Processes // as they were answered last
}

// Processes returns the processes that are connected with the node that serves the lock.
func (r *Redis) Processes(ctx context.Context, k *Keys) *Processes {
	slot, err := r.clientLists.lock.Enter(ctx, r.ctx.Done())
	if err != nil {
		return &Processes{Err: err}
	}
	node, lists := r.Nodes.Of(k.Slot), r.clientLists.byNode
	if known := lists[node]; known != nil && time.Since(known.readAt) < listTime {
		slot.Leave()
		return known
	}
	read, err := inBackground(ctx, r, slot, func() *Processes {
		read := r.readClientList(k)
		if Answered(read.Err) {
			lists[node] = read
		}
		return read
	})
	if err != nil {
		return &Processes{Err: err}
	}
	return read
}

// KnownProcess returns the process that has the client of an owner, if one of the last inspections has found it. It asks
// nothing, waits for nothing, and may be called with a mutex held.
func (r *Redis) KnownProcess(owner string) *Process {
	slot, ok := r.clientLists.lock.TryEnter()
	if !ok {
		return nil
	}
	defer slot.Leave()
	for _, list := range r.clientLists.byNode {
		if p := list.Of(owner); p != nil {
			return p
		}
	}
	return nil
}

// readClientList reads CLIENT LIST on a connection of its own: the reply may be some megabytes,
// and renewals must not wait behind it.
func (r *Redis) readClientList(k *Keys) *Processes {
	ctx := r.deadline.context(time.Now())
	_, result := r.together(ctx,
		r.Client.B().Arbitrary("EXISTS").Keys(k.Key).Build(), // leads to the node
		r.Client.B().Arbitrary("CLIENT", "LIST", "TYPE", "NORMAL").Blocking())
	list, err := result.ToString()
	read := &Processes{readAt: time.Now(), byID: make(map[string]Process), Err: err}
	for line := range strings.Lines(list) {
		if p, id, ok := parseConnection(line); ok {
			read.byID[id] = p
		}
	}
	return read
}

// parseConnection reads a line of CLIENT LIST: words of the form key=value.
func parseConnection(line string) (p Process, id string, ok bool) {
	addr := ""
	for _, word := range strings.Fields(line) {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "addr":
			addr = value
		case "name":
			p, id, ok = parseClientName(value)
		}
	}
	p.Addr = addr
	return p, id, ok
}

// Of returns the process that has the client of an owner, nil if it is not known.
func (p *Processes) Of(owner string) *Process {
	if len(owner) < ClientLen {
		return nil
	}
	if found, ok := p.byID[owner[:ClientLen]]; ok {
		return &found
	}
	return nil
}

const (
	// namePrefix begins the client name of a connection.
	namePrefix = "rlock:"
	// longestPart is how many bytes of a program's or a host's name are shown.
	longestPart = 64
)

// clientName returns the client name of the connections of the client with that id,
// "rlock:<program>:<host>:<pid>:<id>".
func clientName(id string) string { return namePrefix + processName() + ":" + id }

// processName returns the part of the client name that all clients of a process share.
var processName = sync.OnceValue(func() string {
	program := "unknown"
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0])
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return namePart(program) + ":" + namePart(host) + ":" + strconv.Itoa(os.Getpid())
})

// namePart replaces what Redis refuses in a client name (spaces, and all that is not
// printable ASCII), and the colons, since they separate the parts.
func namePart(text string) string {
	if text == "" {
		return "unknown"
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ':' {
			return '_'
		}
		return r
	}, text[:min(len(text), longestPart)])
}

// parseClientName returns the process and the client's id of such a name. ok is false
// for any other name.
func parseClientName(name string) (p Process, id string, ok bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	parts := strings.Split(rest, ":")
	if !ok || len(parts) != 4 {
		return p, "", false
	}
	pid, err := strconv.Atoi(parts[2])
	if err != nil || len(parts[3]) != ClientLen {
		return p, "", false
	}
	return Process{Program: parts[0], Host: parts[1], PID: pid}, parts[3], true
}

// A Permit is what one owner holds.
type Permit struct {
	Owner string
	Count int
	Left  time.Duration
}

// PermitsOf reads the members of a semaphore's key, with their scores, and the server's time.
// Owners whose leases are over have no permit, and neither has the member that counts (scripts/permits.lua).
func PermitsOf(members, clock rueidis.RedisResult) (held []Permit, err error) {
	ends, err := members.AsZScores()
	if err != nil || len(ends) == 0 {
		return nil, err
	}
	parts, err := clock.AsIntSlice()
	if err == nil && len(parts) != 2 {
		err = fmt.Errorf("TIME was answered with %d values, not 2", len(parts))
	}
	if err != nil {
		return nil, err
	}
	now := time.Duration(parts[0])*time.Second + time.Duration(parts[1])*time.Microsecond // since 1970
	for _, end := range ends {
		if left := Milliseconds(int64(end.Score)) - now; left > 0 {
			owner, more := CutMore(end.Member)
			held = append(held, Permit{owner, 1 + int(more), left})
		}
	}
	return held, nil
}
