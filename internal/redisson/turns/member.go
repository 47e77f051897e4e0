package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// memberEnv makes this program a process in Go, which reads and writes the same lines as the driver in Java.
const memberEnv = "RLOCK_TURNS_MEMBER"

// A command is what a line asks for: see the driver in Java.
type command struct {
	ID          int64  `json:"id"`
	Thread      string `json:"thread"`
	Call        string `json:"call"`
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	LeaseMillis int64  `json:"leaseMillis"`
	Counter     string `json:"counter"`
}

type answer struct {
	ID        int64  `json:"id"`
	Value     any    `json:"value,omitempty"`
	Exception string `json:"exception,omitempty"`
	Message   string `json:"message,omitempty"`
}

// A member executes the commands of its threads.
type member struct {
	client *redisson.Client

	mu      sync.Mutex // protects following
	out     *json.Encoder
	permits map[string]*redisson.Permit // that are held, by id
}

// beMember does not return in a process of [memberEnv].
func beMember() {
	if os.Getenv(memberEnv) == "" {
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	var settings struct {
		Addresses []string `json:"addresses"`
	}
	err := json.Unmarshal(in.Bytes(), &settings)
	var client *rlock.Client
	if err == nil {
		client, err = rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: settings.Addresses}, Lease: permitLease})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m := &member{client: redisson.New(client), out: json.NewEncoder(os.Stdout), permits: make(map[string]*redisson.Permit)}
	m.say(answer{})
	threads := make(map[string]chan command)
	for in.Scan() {
		var c command
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if threads[c.Thread] == nil {
			threads[c.Thread] = make(chan command, 16)
			go m.thread(threads[c.Thread])
		}
		threads[c.Thread] <- c
	}
	_ = client.Close()
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (m *member) say(a answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.out.Encode(a)
}

func (m *member) thread(commands <-chan command) {
	for c := range commands {
		value, err := m.execute(c)
		a := answer{ID: c.ID, Value: value}
		if err != nil {
			a.Exception, a.Message = "error", err.Error()
		}
		m.say(a)
	}
}

func (m *member) execute(c command) (any, error) {
	ctx := context.Background()
	switch c.Kind + " " + c.Call {
	case "semaphore acquire":
		return nil, m.client.Semaphore(c.Name).Acquire(ctx, int(c.LeaseMillis))
	case "semaphore release":
		return nil, m.client.Semaphore(c.Name).Release(ctx, int(c.LeaseMillis))
	case "permits acquire":
		return m.acquire(ctx, m.client.PermitSemaphore(c.Name), time.Duration(c.LeaseMillis)*time.Millisecond)
	case "permits tryRelease":
		return m.release(ctx, c.Counter)
	case "latch trySetCount":
		return m.client.CountDownLatch(c.Name).TrySetCount(ctx, c.LeaseMillis)
	case "latch countDown":
		return nil, m.client.CountDownLatch(c.Name).CountDown(ctx)
	case "latch await":
		return true, m.client.CountDownLatch(c.Name).Await(ctx)
	}
	return nil, fmt.Errorf("no call %s of a %s", c.Call, c.Kind)
}

func (m *member) acquire(ctx context.Context, s *redisson.PermitSemaphore, lease time.Duration) (any, error) {
	p, err := s.Acquire(ctx, lease)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.permits[p.ID()] = p
	return p.ID(), nil
}

func (m *member) release(ctx context.Context, id string) (any, error) {
	m.mu.Lock()
	p := m.permits[id]
	delete(m.permits, id)
	m.mu.Unlock()
	err := p.Release(ctx)
	return err == nil, notLost(err)
}

// notLost is err, but nil for a permit that had ended: tryRelease is false then.
func notLost(err error) error {
	if errors.Is(err, rlock.ErrLost) {
		return nil
	}
	return err
}
