package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// A form is one way to protect a value with one library. A worker in Go opens it; others are programs.
type form struct {
	Library, Form string

	open    func(place, time.Duration) (taker, error)
	program func() (*exec.Cmd, error)
}

// command returns the command that runs a worker of the form.
func (f form) command() (*exec.Cmd, error) {
	if f.program != nil {
		return f.program()
	}
	self, err := os.Executable()
	return exec.Command(self), err
}

// A place is where Redis is: its address, or those of the sentinels of a set.
type place struct {
	Addrs []string
	Set   string // "" for a Redis without sentinels
}

func (p place) rueidis() rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: p.Addrs, Sentinel: rueidis.SentinelOption{MasterSet: p.Set}}
}

func (p place) goredis() redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{Addrs: p.Addrs, MasterName: p.Set})
}

// open returns a client of the resource, or of the run itself.
func (p place) open() (rueidis.Client, error) {
	option := p.rueidis()
	option.DisableCache, option.ForceSingleClient = true, p.Set == ""
	return rueidis.NewClient(option)
}

// A taker takes the lock.
type taker func(ctx context.Context) (*held, error)

// A held is a lock that was taken.
type held struct {
	ctx     context.Context // ends with the hold, as far as the library and the form say
	valid   func() bool     // the look just before the write
	token   int64           // 0: the resource compares none
	exec    script          // executes what reads and writes the resource
	release func()
}

// A script executes a Lua script at the resource.
type script func(ctx context.Context, source string, args ...string) (rueidis.RedisMessage, error)

// The forms, in the table's words.
const (
	bare    = "bare"
	synced  = "a replica waited for"
	obeyed  = "context obeyed"
	clock   = "clock looked at"
	asked   = "Redis asked"
	fencing = "token at the resource"
	guarded = "guarded in Redis"
)

// forms are all that there are. rueidislock has no token; redsync and redislock have one form beside the bare one.
func forms() []form {
	as := func(library, text string, open func(p place, lease time.Duration, form string) (taker, error)) form {
		return form{Library: library, Form: text, open: func(p place, lease time.Duration) (taker, error) { return open(p, lease, text) }}
	}
	java := func(text string) form { return form{Library: redissons, Form: text, program: redissonWorker} }
	return []form{
		as("rlock", bare, rlockAs),
		as("redsync", bare, redsyncAs),
		as("redislock", bare, redislockAs),
		as("rueidislock", bare, rueidislockAs),
		java(bare),
		as("rlock", synced, rlockAs),
		as("rlock", obeyed, rlockAs),
		as("rueidislock", obeyed, rueidislockAs),
		as("redsync", clock, redsyncAs),
		as("redislock", asked, redislockAs),
		java(asked),
		as("rlock", fencing, rlockAs),
		java(fencing),
		as("rlock", guarded, rlockAs),
	}
}

var errUnknown = errors.New("faults: no such form")

func find(library, text string) (form, error) {
	for _, f := range forms() {
		if f.Library == library && f.Form == text {
			return f, nil
		}
	}
	return form{}, errUnknown
}

// without returns the forms that can be run on this machine, and why others cannot, "" if all can.
func without(all []form) (there []form, why string) {
	for _, f := range all {
		if _, err := f.command(); err != nil {
			why = fmt.Sprintf("%s (%v)", f.Library, err)
			continue
		}
		there = append(there, f)
	}
	return there, why
}
