package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	synchronizers "github.com/go-rlock/rlock/rlock/redisson"
)

// A fleet is a server with processes in both languages, and an operator, who counts and repairs what the dead leave.
type fleet struct {
	version  redisson.Version
	server   *redistest.Server
	redis    rueidis.Client
	client   *rlock.Client
	operator *synchronizers.Client
	parties  []*party
}

// A party is one process. Each reaches the server at an address of its own, by which its connections are told apart.
type party struct {
	java    bool
	version redisson.Version
	addr    string
	process atomic.Pointer[redisson.Process]
}

// The addresses of the parties, of which the last one is Java's. There is one operator, at 127.0.0.1.
var addresses = []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"}

func newFleet(t *redistest.Program, version redisson.Version, o options) (f *fleet, err error) {
	f = &fleet{version: version}
	args := append([]string{"--bind", "127.0.0.1"}, addresses...)
	if err := redistest.Attempt(func() { f.server = redistest.Standalone(t, args...) }); err != nil {
		return nil, err
	}
	if f.redis, err = rueidis.NewClient(f.server.Options()); err != nil {
		return nil, err
	}
	if f.client, err = rlock.New(rlock.Config{Redis: f.server.Options()}); err != nil {
		return nil, err
	}
	f.operator = synchronizers.New(f.client)
	_, port, _ := strings.Cut(f.server.Addr(), ":")
	for i, addr := range addresses {
		p := &party{java: i == len(addresses)-1, version: version, addr: addr + ":" + port}
		f.parties = append(f.parties, p)
		if err := p.start(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// start starts the process.
func (p *party) start() error {
	c := redisson.Config{Version: p.version, Addrs: []string{p.addr}, Log: os.Stderr}
	var process *redisson.Process
	var err error
	if p.java {
		c.Log = nil // Redisson reports each cut
		process, err = redisson.Start(c)
	} else {
		self, failed := os.Executable()
		if failed != nil {
			return failed
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), memberEnv+"=1")
		process, err = redisson.StartCommand(cmd, c)
	}
	if err == nil {
		p.process.Store(process)
	}
	return err
}

func (f *fleet) close() {
	for _, p := range f.parties {
		p.process.Load().Kill()
	}
	_ = f.client.Close()
	f.redis.Close()
}

func (p *party) thread(i int) redisson.Thread { return p.process.Load().Thread(fmt.Sprint(i)) }

func (p *party) String() string {
	if p.java {
		return "Java"
	}
	return "Go"
}

// kill ends the process with SIGKILL, and starts another one. What Redis has not read of it by then it never reads.
func (f *fleet) kill(p *party) error {
	p.process.Load().Kill()
	if err := f.cut(p); err != nil {
		return err
	}
	return p.start()
}

// cut ends the connections of the party. Of the commands in flight some have been executed.
func (f *fleet) cut(p *party) error {
	return f.do("CLIENT", "KILL", "LADDR", p.addr)
}

// deafen ends all subscriptions, with the messages that are on their way.
func (f *fleet) deafen() error { return f.do("CLIENT", "KILL", "TYPE", "pubsub") }

func (f *fleet) do(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return f.redis.Do(ctx, f.redis.B().Arbitrary(args...).Build()).Error()
}

// keys returns the names of all keys.
func (f *fleet) keys(ctx context.Context) ([]string, error) {
	return f.redis.Do(ctx, f.redis.B().Arbitrary("KEYS", "*").Build()).AsStrSlice()
}
