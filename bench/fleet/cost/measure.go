package cost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
)

const (
	names    = 1000 // locks, and commands that are sent together
	rounds   = 7    // of each measurement, of which the cheapest counts
	many     = 64   // connections that send one command each
	sleeps   = 100
	lease    = "300000"
	claim    = "2000"
	client1  = "aaaaaaaa-0000-8000-" // the beginning of the tickets of a client
	client2  = "bbbbbbbb-0000-8000-"
	client3  = "cccccccc-0000-8000-"
	client4  = "dddddddd-0000-8000-"
	endsWith = "0000-000000000000:1"
)

// A bench is one run of Measure.
type bench struct {
	ctx     context.Context
	addr    string
	redis   rueidis.Client
	scripts scripts
	all     map[*time.Duration][]time.Duration // the measurements of each field
	table   Table
	err     error // the first; nothing is measured after it
}

// Measure measures a server that has nothing else to do, with the scripts of the folder. It deletes all keys of the server.
// With pinned, which needs Linux and its taskset, the server has a processor of its own, and this process another one.
func Measure(ctx context.Context, addr, folder string, pinned bool) (Table, error) {
	b := &bench{ctx: ctx, addr: addr, all: make(map[*time.Duration][]time.Duration)}
	if b.scripts, b.err = load(folder); b.err != nil {
		return b.table, b.err
	}
	b.redis, b.err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1, AlwaysPipelining: true,
	})
	if b.err != nil {
		return b.table, b.err
	}
	defer b.redis.Close()
	b.prepare(pinned)
	stop := b.subscribe()
	for range rounds {
		b.uncontended()
		b.contended()
		b.polling()
		b.connections()
	}
	stop()
	b.sleeping()
	b.pass()
	for at, all := range b.all {
		*at = slices.Min(all)
	}
	return b.table, b.err
}

func (b *bench) failed(err error) bool {
	if b.err == nil && err != nil {
		b.err = fmt.Errorf("cost: %w", err)
	}
	return b.err != nil
}

// prepare loads the scripts, and checks that a client uses the same.
func (b *bench) prepare(pinned bool) {
	info := b.info("server")
	b.table.Server = "Redis " + field(info, "redis_version")
	b.table.When = time.Now().Format("2 January 2006")
	b.table.Machine = processor()
	if pinned {
		pid := field(info, "process_id")
		b.failed(exec.Command("taskset", "-acp", "1", pid).Run())
		b.failed(exec.Command("taskset", "-acp", "0", strconv.Itoa(os.Getpid())).Run())
	}
	client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{b.addr}}})
	if b.failed(err) {
		return
	}
	l := client.NewLock("check")
	b.failed(errors.Join(l.Lock(b.ctx), l.Unlock(b.ctx), client.Close()))
	known, err := b.redis.Do(b.ctx, b.redis.B().ScriptExists().Sha1(sha(b.scripts.acquire), sha(b.scripts.step)).Build()).AsIntSlice()
	if !b.failed(err) && !slices.Equal(known, []int64{1, 1}) {
		b.err = fmt.Errorf("cost: the scripts in the folder are not those that a client loads (%v)", known)
	}
	for _, text := range []string{b.scripts.mirror, b.scripts.release} {
		b.failed(b.redis.Do(b.ctx, b.redis.B().ScriptLoad().Script(text).Build()).Error())
	}
}

// subscribe has subscribers for the tickets of all clients.
func (b *bench) subscribe() (stop func()) {
	ctx, cancel := context.WithCancel(b.ctx)
	var done sync.WaitGroup
	for _, client := range []string{client2, client3, client4} {
		var channels []string
		for i := range names {
			channels = append(channels, "rlock_grants:{"+name(i)+"}:"+client)
		}
		confirmed := make(chan struct{}, names)
		done.Go(func() {
			own, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{b.addr}, DisableCache: true, ForceSingleClient: true})
			if b.failed(err) {
				return
			}
			defer own.Close()
			hooked := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) {
				select {
				case confirmed <- struct{}{}:
				default:
				}
			})
			_ = own.Receive(hooked, own.B().Subscribe().Channel(channels...).Build(), func(rueidis.PubSubMessage) {})
		})
		for range names {
			select {
			case <-confirmed:
			case <-time.After(10 * time.Second):
				b.failed(errors.New("no subscription"))
			}
		}
	}
	return func() {
		cancel()
		done.Wait()
	}
}

func name(i int) string { return "fleet:" + strconv.Itoa(i) }

func ticket(client string) string { return client + endsWith }

func (b *bench) acquire(client string) func(int) rueidis.Completed {
	hash := sha(b.scripts.acquire)
	return func(i int) rueidis.Completed {
		return b.redis.B().Evalsha().Sha1(hash).Numkeys(2).Key(name(i), "rlock_queue:{"+name(i)+"}").Arg(lease, ticket(client)).Build()
	}
}

func (b *bench) mirror(client string) func(int) rueidis.Completed {
	hash := sha(b.scripts.mirror)
	return func(i int) rueidis.Completed {
		return b.redis.B().Evalsha().Sha1(hash).Numkeys(1).Key(name(i)).Arg("p", lease, ticket(client), "1", "", "").Build()
	}
}

func (b *bench) step(args ...string) func(int) rueidis.Completed {
	hash := sha(b.scripts.step)
	return func(i int) rueidis.Completed {
		tag := "{" + name(i) + "}"
		return b.redis.B().Evalsha().Sha1(hash).Numkeys(6).Key(name(i), "rlock_queue:"+tag, "rlock_foreign:"+tag,
			"redisson_lock__channel:"+tag, "redisson_lock_queue:"+tag, "redisson_lock_timeout:"+tag).Arg("p").Arg(args...).Build()
	}
}

func (b *bench) leave(client string) func(int) rueidis.Completed { return b.step(ticket(client)) }

func (b *bench) join(client string) func(int) rueidis.Completed {
	return b.step(claim, "", "0", "1", "x"+ticket(client))
}

// each sends one command for each lock in a pipeline, and notes what one has cost in at, unless that is nil.
func (b *bench) each(at *time.Duration, build func(int) rueidis.Completed) {
	if b.err != nil {
		return
	}
	commands := make(rueidis.Commands, names)
	for i := range commands {
		commands[i] = build(i)
	}
	before := b.cpu()
	for _, r := range b.redis.DoMulti(b.ctx, commands...) {
		if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
			b.failed(err)
		}
	}
	if spent := b.cpu() - before; at != nil {
		b.all[at] = append(b.all[at], spent/names)
	}
}

func (b *bench) uncontended() {
	t := &b.table
	b.empty()
	b.each(&t.Acquire, b.acquire(client1))
	b.each(&t.Refused, b.acquire(client2))
	b.each(&t.Mirror, b.mirror(client1))
	b.each(&t.Leave, b.leave(client1))
}

func (b *bench) contended() {
	t := &b.table
	b.empty()
	b.each(nil, b.acquire(client1))
	b.each(&t.JoinFirst, b.join(client2))
	b.each(&t.Join, b.join(client3))
	b.each(&t.Look, b.step(lease, "", "0", "0", "x"+ticket(client3)))
	b.each(&t.LeaveJoin, b.step(claim, "", "1", "1", "x"+ticket(client1), "x"+ticket(client4)))
	b.each(&t.LeaveNext, b.leave(client2))
	b.each(nil, b.leave(client3))
	b.each(nil, b.leave(client4))
	b.each(&t.JoinFree, b.join(client2))
	b.each(nil, b.leave(client2))
}

func (b *bench) polling() {
	t, hash := &b.table, sha(b.scripts.release)
	set := func(i int) rueidis.Completed {
		return b.redis.B().Set().Key(name(i)).Value(ticket(client1)).Nx().PxMilliseconds(30_000).Build()
	}
	b.empty()
	b.each(&t.Set, set)
	b.each(&t.SetRefused, set)
	b.each(&t.Delete, func(i int) rueidis.Completed {
		return b.redis.B().Evalsha().Sha1(hash).Numkeys(1).Key(name(i)).Arg(ticket(client1)).Build()
	})
}

// connections measures the costs of a command and a message if each has a connection of its own.
func (b *bench) connections() {
	t := &b.table
	open := make([]net.Conn, many)
	for i := range open {
		c, err := net.Dial("tcp", b.addr)
		if b.failed(err) {
			return
		}
		defer func() { _ = c.Close() }()
		open[i] = c
	}
	ping, pong := []byte("*1\r\n$4\r\nPING\r\n"), make([]byte, len("+PONG\r\n"))
	const turns = 50
	var alone time.Duration
	cost := func(turn func()) time.Duration {
		turn()
		before := b.cpu()
		for range turns {
			turn()
		}
		return (b.cpu() - before) / (turns * many)
	}
	ways := cost(func() {
		for _, c := range open {
			_, err := c.Write(ping)
			b.failed(err)
		}
		for _, c := range open {
			_, err := io.ReadFull(c, pong)
			b.failed(err)
		}
	})
	before := b.cpu()
	commands := make(rueidis.Commands, turns*many)
	for i := range commands {
		commands[i] = b.redis.B().Ping().Build()
	}
	for _, r := range b.redis.DoMulti(b.ctx, commands...) {
		b.failed(r.Error())
	}
	alone = (b.cpu() - before) / (turns * many)
	b.all[&t.Command] = append(b.all[&t.Command], ways-alone)

	// A message: what PUBLISH to a channel with a subscriber costs more than one without.
	readers := make([]*bufio.Reader, many)
	subscribeAll := func(i int, c net.Conn) {
		channel := "fleet-message:" + strconv.Itoa(i)
		_, err := fmt.Fprintf(c, "*2\r\n$9\r\nSUBSCRIBE\r\n$%d\r\n%s\r\n", len(channel), channel)
		b.failed(err)
	}
	spent := b.cpu()
	for i, c := range open {
		subscribeAll(i, c)
		readers[i] = bufio.NewReader(c)
		b.skip(readers[i], 6)
	}
	b.all[&t.Subscribe] = append(b.all[&t.Subscribe], max((b.cpu()-spent)/many-(ways-alone), time.Microsecond))
	publish := func(channel string) func() {
		return func() {
			commands := make(rueidis.Commands, many)
			for i := range commands {
				commands[i] = b.redis.B().Publish().Channel(channel + strconv.Itoa(i)).Message("a message as long as that of a grant, which has the ticket and the name").Build()
			}
			for _, r := range b.redis.DoMulti(b.ctx, commands...) {
				b.failed(r.Error())
			}
			if channel == "fleet-message:" {
				for _, r := range readers {
					b.skip(r, 7)
				}
			}
		}
	}
	deaf := cost(publish("fleet-deaf:"))
	told := cost(publish("fleet-message:"))
	b.all[&t.Message] = append(b.all[&t.Message], told-deaf)
}

// skip reads so many lines.
func (b *bench) skip(r *bufio.Reader, lines int) {
	for range lines {
		if _, err := r.ReadSlice('\n'); b.failed(err) {
			return
		}
	}
}

func (b *bench) empty() {
	b.failed(b.redis.Do(b.ctx, b.redis.B().Flushall().Build()).Error())
}

func (b *bench) info(section string) string {
	text, err := b.redis.Do(b.ctx, b.redis.B().Info().Section(section).Build()).ToString()
	b.failed(err)
	return text
}

// cpu returns the processor time of the server's main thread.
func (b *bench) cpu() (sum time.Duration) {
	info := b.info("cpu")
	for _, of := range []string{"used_cpu_sys_main_thread", "used_cpu_user_main_thread"} {
		seconds, err := strconv.ParseFloat(field(info, of), 64)
		b.failed(err)
		sum += time.Duration(seconds * float64(time.Second))
	}
	return sum
}

func field(info, name string) string {
	for line := range strings.Lines(info) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), ":"); key == name {
			return value
		}
	}
	return ""
}
