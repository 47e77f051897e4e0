package wire

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Survey sends commands that only read, in one pipeline to the node that serves the slot, and
// returns their replies, errors of the server included. After a fault that waiting may cure, and
// after an answer of a replica, it tries again, for Patience at most.
//
// The commands are made by Arbitrary, so that rueidis does not know that they only read: it would
// repeat them until their context ends, each time with a place in its ring.
func (r *Redis) Survey(ctx context.Context, slot uint16, commands ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	switch {
	case r.ctx.Err() != nil:
		return nil, ErrClosed
	case ctx.Err() != nil:
		return nil, Over(ctx)
	}
	for i := range commands {
		commands[i] = commands[i].Pin() // it may be sent several times
	}
	caller := ctx
	ctx, cancel := r.Within(caller)
	defer cancel()
	var last error // the error of the last attempt
	for retry := FirstRetry; ; retry = min(2*retry, LastRetry) {
		replies, err := r.surveyOnce(ctx, slot, commands)
		if failed := passing(replies); failed != nil { // this error says more than that the server is a replica
			err = failed
		}
		switch {
		case err == nil:
			return replies, nil
		case caller.Err() != nil:
			return nil, TimeUp(caller, last) // the error of the caller's context, and not of ctx
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

// passing returns the first error among the replies that waiting may cure.
func passing(replies []rueidis.RedisResult) error {
	for _, reply := range replies {
		if err := reply.Error(); err != nil && !rueidis.IsRedisNil(err) {
			if d, err := Diagnose(err); d != Never {
				return err
			}
		}
	}
	return nil
}

// surveyOnce is one attempt of Survey. It returns when ctx ends. The pipeline then keeps its slot
// until it is answered, as it keeps its places in rueidis' ring.
func (r *Redis) surveyOnce(ctx context.Context, slot uint16, commands []rueidis.Completed) ([]rueidis.RedisResult, error) {
	limit, err := r.Limits(slot).Asks.Enter(ctx, r.ctx.Done())
	if err != nil {
		return nil, err
	}
	replies, err := inBackground(ctx, r, limit, func() []rueidis.RedisResult {
		r.sent.n.Add(int64(len(commands)))
		asked := commands
		if !r.cluster {
			asked = append(slices.Clone(commands), r.Client.B().Hello().Build())
		}
		replies := r.Client.DoMulti(r.deadline.context(time.Now()), asked...)
		if Answered(replies[0].Error()) {
			limit.Heard()
		}
		return replies
	})
	if err == nil && len(replies) > len(commands) {
		err = r.ofReplica(replies[len(commands)])
		replies = replies[:len(commands)]
	}
	return replies, err
}

// A background counts the goroutines that work for a client in the background. Its zero value is
// ready for use.
type background struct {
	mu      sync.Mutex // guards the fields below
	closed  bool
	running sync.WaitGroup // only Add needs the mutex
}

// startWork calls work in a goroutine of its own, and returns true. After close it does nothing,
// and returns false.
func (b *background) startWork(work func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Go(work)
	}
	return !b.closed
}

// close waits until all goroutines have ended. No more are started.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}

// inBackground returns the result of work, or an error once ctx ends. In that case work goes on,
// and keeps its slot of the limit until it ends.
func inBackground[T any](ctx context.Context, r *Redis, limit *Limit, work func() T) (result T, err error) {
	landed := make(chan T, 1)
	started := r.background.startWork(func() {
		defer limit.FreeSlot()
		landed <- work()
	})
	if !started {
		limit.FreeSlot()
		return result, ErrClosed
	}
	select {
	case result = <-landed:
		return result, nil
	case <-ctx.Done():
		return result, fmt.Errorf("no answer: %w", ctx.Err())
	}
}

// SlotOf returns the slot of a key, 0 outside of a Cluster.
func (r *Redis) SlotOf(key string) uint16 {
	if r.InCluster() {
		return HashSlot(key)
	}
	return 0
}

// Promptly returns what ask returns, or an error once ctx ends. rueidis may return later: while it
// dials, and while it reads over a connection whose peer is silent. The context of ask ends later
// than ctx: if the context of a command ended while it dials, all commands that wait for the
// connection would fail.
func Promptly[T any](ctx context.Context, r *Redis, slot uint16, ask func(ctx context.Context) (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	limit, err := r.Limits(slot).Asks.Enter(ctx, r.ctx.Done())
	if err != nil {
		return *new(T), err
	}
	got, err := inBackground(ctx, r, limit, func() (got reply) {
		if got.value, got.err = ask(r.deadline.context(time.Now())); Answered(got.err) {
			limit.Heard()
		}
		return got
	})
	if err == nil {
		err = got.err
	}
	return got.value, err
}

// listTime is the age at which Processes reads CLIENT LIST of a node again.
const listTime = time.Second

// A Process is a process with a client of rlock, as the client name of a connection describes it.
type Process struct {
	Program string // the base name of the program's executable
	Host    string // the host name of its machine or container
	PID     int    // the process id
	Addr    string // the address of its connection, as Redis sees it: "10.0.0.7:51234"
}

// String returns "orders@host[4711]".
func (p Process) String() string { return fmt.Sprintf("%s@%s[%d]", p.Program, p.Host, p.PID) }

// Processes are the processes that are connected with one node.
type Processes struct {
	readAt time.Time
	byID   map[string]Process
	Err    error // the error of CLIENT LIST, or nil
}

// clientLists keeps the processes of each node, so that many questions in a row cost one CLIENT
// LIST, whose reply has a line for each connection of the server.
type clientLists struct {
	lock   Limit                 // a limit of one command, whose slot guards the fields below
	byNode map[uint32]*Processes // the last lists
}

// Processes returns the processes that are connected with the node that serves the lock, as they
// were at most a second ago.
func (r *Redis) Processes(ctx context.Context, k *Keys) *Processes {
	return r.ProcessesWithin(ctx, k, listTime)
}

// ProcessesWithin returns the processes, from a reply that is no older than age.
func (r *Redis) ProcessesWithin(ctx context.Context, k *Keys, age time.Duration) *Processes {
	slot, err := r.clientLists.lock.Enter(ctx, r.ctx.Done())
	if err != nil {
		return &Processes{Err: err}
	}
	node, lists := r.Nodes.NodeOf(k.Slot), r.clientLists.byNode
	if known := lists[node]; known != nil && time.Since(known.readAt) < age {
		slot.FreeSlot()
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

// KnownProcess returns the process of an owner's client, if a recent call of Processes has found
// it, or nil. It does not wait.
func (r *Redis) KnownProcess(owner OwnerText) *Process {
	slot, ok := r.clientLists.lock.TryEnter()
	if !ok {
		return nil
	}
	defer slot.FreeSlot()
	for _, list := range r.clientLists.byNode {
		if p := list.OfOwner(owner); p != nil {
			return p
		}
	}
	return nil
}

// readClientList reads CLIENT LIST over a connection of its own, since renewals must not wait
// behind a reply of some megabytes.
func (r *Redis) readClientList(k *Keys) *Processes {
	ctx := r.deadline.context(time.Now())
	_, result := r.doTwo(ctx,
		r.Client.B().Arbitrary("EXISTS").Keys(k.Key).Build(), // its slot leads to the node
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

// OfOwner returns the process of an owner's client, or nil if that process is not known.
func (p *Processes) OfOwner(owner OwnerText) *Process { return p.OfClient(owner.ClientID()) }

// OfClient returns the process of the client with the id, or nil if that process is not known.
func (p *Processes) OfClient(id string) *Process {
	if found, ok := p.byID[id]; ok {
		return &found
	}
	return nil
}

const (
	// namePrefix begins the client name of a connection.
	namePrefix = "rlock:"
	// longestPart is the largest length of a program's or a host's name, in bytes.
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

// namePart replaces the characters that Redis refuses in a client name (spaces, and all that are
// not printable ASCII), and colons, which separate the parts.
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

// parseClientName returns the process and the client's id of a name that clientName has made. ok is
// false for any other name.
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

// A Permit is the permits of one owner.
type Permit struct {
	Owner OwnerText // without the number of the permits
	Count int
	Left  time.Duration
}

// Scored and Numbered are replies of their own, or a part of one.
type (
	Scored interface {
		AsZScores() ([]rueidis.ZScore, error)
	}
	Numbered interface{ AsIntSlice() ([]int64, error) }
)

// PermitsOf returns the permits that are held, by the members of a semaphore's key with their
// scores, and the reply to TIME. The member "*" (scripts/permits.lua) is no owner.
func PermitsOf(members Scored, clock Numbered) (held []Permit, err error) {
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
		if left := Milliseconds(int64(max(min(end.Score, 1<<53), 0))) - now; left > 0 {
			owner, more := OwnerText(end.Member).CutMore()
			held = append(held, Permit{owner, 1 + int(more), left})
		}
	}
	return held, nil
}
