package redisson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
)

// ErrEnded means that the Java process ended before it answered.
var ErrEnded = errors.New("redisson: the Java process has ended")

// patience is how long Close lets a client take to shut down.
const patience = 30 * time.Second

// An Exception is what Redisson threw.
type Exception struct {
	Class   string // with its package: java.lang.IllegalMonitorStateException
	Message string
}

// Error implements error.
func (e *Exception) Error() string { return e.Class + ": " + e.Message }

// Sharding is Redisson's shardedSubscriptionMode, which matters in a Cluster only.
type Sharding string

// What rlock calls PubSubAuto, PubSubSharded and PubSubPlain.
const (
	ShardingAuto Sharding = "AUTO"
	ShardingOn   Sharding = "ON"
	ShardingOff  Sharding = "OFF"
)

// Config says what a client of Redisson is told besides its defaults.
type Config struct {
	Version  Version
	Addrs    []string      // host:port, of one server or of nodes of a Cluster
	Replicas []string      // of that one server: Redisson then subscribes there only, with subscriptionMode=SLAVE
	Cluster  bool          // and which
	Watchdog time.Duration // lockWatchdogTimeout; defaults to 30 s
	Sharding Sharding      // defaults to ShardingAuto
	Prefix   string        // which a NameMapper puts before each name; "": there is no NameMapper
	Log      io.Writer     // gets Redisson's warnings; defaults to nowhere
}

// A Process is a Java process with one RedissonClient. Its methods may be called
// concurrently.
type Process struct {
	java  *redistest.Process
	ended chan struct{} // closed when the process has, and all calls know

	mu      sync.Mutex // guards the fields below
	sent    int64      // id of the last command
	waiting map[int64]chan answer
}

type command struct {
	ID     int64  `json:"id"`
	Thread string `json:"thread"`
	Call   string `json:"call"`
	Kind   Kind   `json:"kind,omitempty"`
	Name   string `json:"name,omitempty"`
	Args   []any  `json:"args,omitempty"`
}

type answer struct {
	ID        int64
	Value     json.RawMessage
	Exception string
	Message   string
}

// quickly is for the JVM to start as fast as it can: its code runs for seconds.
var quickly = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}

// Start starts a Java process and returns when its client is connected.
func Start(c Config) (*Process, error) {
	cmd, err := Command(c.Version, "rlock.Driver", slices.Concat(quickly, []string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"})...)
	if err != nil {
		return nil, err
	}
	if c.Watchdog == 0 {
		c.Watchdog = 30 * time.Second
	}
	if c.Sharding == "" {
		c.Sharding = ShardingAuto
	}
	connected := make(chan answer, 1)
	p := &Process{ended: make(chan struct{}), waiting: map[int64]chan answer{0: connected}}
	cmd.Stderr = c.Log
	if p.java, err = redistest.Start(cmd, p.hear); err != nil {
		return nil, fmt.Errorf("redisson: %w", err)
	}
	go p.end()
	if err := p.tell(c.settings()); err != nil {
		p.Kill()
		return nil, fmt.Errorf("redisson: %w", err)
	}
	if _, ok := <-connected; !ok {
		p.Kill()
		return nil, fmt.Errorf("%w before its client was connected: see Config.Log", ErrEnded)
	}
	return p, nil
}

// settings are the first line that the process reads.
func (c Config) settings() any {
	s := map[string]any{"addresses": c.Addrs, "replicas": c.Replicas, "cluster": c.Cluster, "watchdog": c.Watchdog.Milliseconds(), "sharded": c.Sharding}
	if c.Prefix != "" {
		s["prefix"] = c.Prefix
	}
	return s
}

// hear gives an answer to the call that waits for it.
func (p *Process) hear(line string) {
	var a answer
	if json.Unmarshal([]byte(line), &a) != nil {
		return // a JVM that is asked to may print
	}
	p.mu.Lock()
	call := p.waiting[a.ID]
	delete(p.waiting, a.ID)
	p.mu.Unlock()
	if call != nil {
		call <- a
	}
}

// tell writes one line.
func (p *Process) tell(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	return p.java.Say(string(text))
}

// end tells all calls when the process has ended.
func (p *Process) end() {
	<-p.java.Gone()
	p.mu.Lock()
	for _, call := range p.waiting {
		close(call)
	}
	p.waiting = nil
	p.mu.Unlock()
	close(p.ended)
}

// call sends a command and returns its value when it was executed.
func (p *Process) call(c command) (value json.RawMessage, err error) {
	answered := make(chan answer, 1)
	p.mu.Lock()
	if p.waiting == nil {
		p.mu.Unlock()
		return nil, ErrEnded
	}
	p.sent++
	c.ID = p.sent
	p.waiting[c.ID] = answered
	err = p.tell(c)
	p.mu.Unlock()
	if err != nil { // it ends, or is told to
		<-p.ended
		return nil, ErrEnded
	}
	a, ok := <-answered
	switch {
	case !ok:
		return nil, fmt.Errorf("%s of %q: %w", c.Call, c.Name, ErrEnded)
	case a.Exception != "":
		return nil, fmt.Errorf("redisson: %s of %q: %w", c.Call, c.Name, &Exception{a.Exception, a.Message})
	}
	return a.Value, nil
}

// Kill ends the process with SIGKILL, as a crash would: nothing is released.
func (p *Process) Kill() {
	p.java.Kill()
	<-p.ended
}

// Close shuts the client down, and ends the process by force if that takes too
// long. Redisson leaves locks that are still held to expire.
func (p *Process) Close() error {
	orderly := p.java.End(patience)
	<-p.ended
	if !orderly {
		return fmt.Errorf("redisson: the client has not shut down within %v", patience)
	}
	return nil
}
