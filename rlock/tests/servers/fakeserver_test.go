package servers_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
)

// A fakeServer answers each command with the result of reply, as it goes over the wire. It
// stands for servers that no machine has at hand.
type fakeServer struct {
	reply    func(command string) string // the words of the command, with a space between
	greeting string                      // sent in place of all answers, before the server closes the connection

	mu       sync.Mutex // protects commands
	commands []string
}

// hello is the answer to HELLO of a server of that version, in that mode.
func hello(version, mode string) string {
	return fmt.Sprintf("%%4\r\n+server\r\n+redis\r\n+version\r\n+%s\r\n+proto\r\n:3\r\n+mode\r\n+%s\r\n", version, mode)
}

// aside runs a test in virtual time, and waits for the goroutine that rueidis leaves asleep
// when a connection to a supposed Cluster has ended.
func aside(t *testing.T, run func(t *testing.T)) {
	t.Helper()
	redistest.WithoutServer(t)
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute)
		run(t)
	})
}

// option connects to the server over pipes, so that it may be used in a bubble.
func (f *fakeServer) option() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:  []string{"127.0.0.1:6379"},
		DisableCache: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			here, there := net.Pipe()
			go f.serve(there)
			return here, nil
		},
	}
}

func (f *fakeServer) config() rlock.Config {
	return rlock.Config{Redis: f.option(), Logger: testbed.Quiet}
}

func (f *fakeServer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	if f.greeting != "" {
		_, _ = in.Peek(1) // the writer of a pipe waits until it is read
		_, _ = io.WriteString(conn, f.greeting)
		return
	}
	answers := make(chan string, 1000) // a client may write before it reads
	defer close(answers)
	go func() {
		for answer := range answers {
			_, _ = io.WriteString(conn, answer)
		}
	}()
	for {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		command := strings.Join(words, " ")
		f.mu.Lock()
		f.commands = append(f.commands, command)
		f.mu.Unlock()
		if strings.HasPrefix(command, "CLIENT ") || command == "PING" {
			answers <- "+OK\r\n"
		} else {
			answers <- f.reply(command)
		}
	}
}

// readCommand reads an array of strings.
func readCommand(in *bufio.Reader) (words []string, err error) {
	number := func() (n int) {
		line, e := in.ReadString('\n')
		if err = e; err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for range number() {
		text := make([]byte, number()+len("\r\n"))
		if err == nil {
			_, err = io.ReadFull(in, text)
		}
		words = append(words, strings.TrimSpace(string(text)))
	}
	return words, err
}

// said reports whether a command with these words has arrived.
func (f *fakeServer) said(words string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.commands, func(c string) bool { return strings.Contains(c, words) })
}

// all returns the commands so far.
func (f *fakeServer) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.commands)
}

// noCluster is the answer of a single server to a query for slots.
const noCluster = "-ERR This instance has cluster support disabled\r\n"
