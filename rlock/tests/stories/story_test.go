// Package stories_test has the stories of package rlock that are data: see TestStories.
package stories_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/golden"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// TestStories runs the stories in testdata, each in virtual time on servers of its own. A file has
// a topic, and a story is a [golden.Case]: what happens, and what was told of it. What is told at
// one moment is in the order of who tells it, and begins with the time if that is later than before.
// Of a call that succeeds at once nothing is told. At the end the clients are closed, and keys that
// are left are told.
//
//	clients p q                     two clients, each with a network of its own
//	client p lease=3s observed      one with that Config, whose Observer (logs: whose Logger) tells all; most
//	                                words are fields of a Config
//	each kind                       the story is told of each kind of lock
//	of fair read/write              the story is told of each of these locks, behind the "/" of its rival
//	untimed                         times are not told, since some of them are random, nor is the order in time
//	                                of what an event brings about: also each kind untimed, where an event takes
//	                                some milliseconds if there are several servers
//	p lock me fenced lease=1m       a call for an owner with the name me: lock, try, unlock, depth, token
//	p hold h permits*3 wait=0       a call for a hold with the name h: hold, do, resume
//	release h; extend h 1m          calls of a hold: also pass, write, releasewith, valid, holdtoken
//	q look; q free                  what inspect shows of a lock, and its release by force
//	p force; p locked x read        questions, and what needs no owner: also ttl, inspect, names, held,
//	                                stats, counts, sent, close
//	p net silent                    the network: see network
//	redis del orders:42             what another program does to the data: see redis
//	hear CHANNEL                    another client subscribes, and its messages are told
//	sleep 1m; cancel me; keys; channels
//	goon me; told me                see blocks; how often the progress function of a call was called
//
// A lock is plain unless it has a kind, with a number of permits, and a name: fair, permits*3,
// read/a. Several with a + are a multi-lock. Options of calls are those of package rlock; in=h is
// the context of the hold h, with=h one with that hold, beyond=h its context without its end, past=h that of
// With, as=me that of an owner, within=1s one that ends, ended one that has; says tells the whole error, and untold that
// nothing is told of the end of the context, whose moment is random. With blocks the function of Do blocks
// until goon; so does the progress function with progress=blocks, and with panics or exits it then panics or
// ends its goroutine.
func TestStories(t *testing.T) {
	golden.Cases(t, true, func(t *testing.T, c *golden.Case) {
		first, untimed := strings.CutSuffix(c.First(), "untimed")
		tell := func(t *testing.T, w *testbed.VirtualKind, lock string) {
			s := newStory(w)
			s.word, s.rival, _ = strings.Cut(lock, "/")
			s.timed = !untimed
			c.Tell(t, s.does)
		}
		locks, of := strings.CutPrefix(first, "of ")
		if !of {
			locks = "plain"
		}
		if strings.HasPrefix(first, "each kind") {
			testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) { tell(t, w, "") })
			return
		}
		for _, lock := range strings.Fields(locks) {
			run := func(t *testing.T) {
				testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
					tell(t, &testbed.VirtualKind{World: w, Worlds: []*testbed.World{w}}, lock)
				})
			}
			if of {
				t.Run(lock, run)
			} else {
				run(t)
			}
		}
	})
}

// A story is what happens in a paragraph.
type story struct {
	*testbed.VirtualKind
	began  time.Time
	peers  map[string]*testbed.Peer
	sent   map[string]int // scripts of each peer, until they were last asked for or counted anew
	owners map[string]rlock.Owner
	calls  map[string]*call        // the last of each name
	looks  map[string]inspect.Lock // what each peer was shown last
	word   string                  // the lock that is meant if none is named, and its rival
	rival  string
	usual  line // the success of the call that the event begins
	timed  bool // when something is told, and that was last
	last   time.Duration

	mu   sync.Mutex // guards the fields below
	told []line
}

// A call is in its context, by which an Observer knows it.
type call struct {
	who    string
	cancel context.CancelFunc
	done   chan struct{}
	hold   *rlock.Hold // of that name, and the text that has passed it on
	pass   string
	within context.Context // of the function of Do
	goesOn chan struct{}   // closed when its function goes on
	told   atomic.Int32    // calls of that function
}

type callKey struct{}

// A line says what was told, when and by whom.
type line struct {
	at       time.Duration
	by, text string
}

func newStory(w *testbed.VirtualKind) *story {
	return &story{
		VirtualKind: w, began: time.Now(), peers: map[string]*testbed.Peer{}, sent: map[string]int{},
		owners: map[string]rlock.Owner{}, calls: map[string]*call{}, looks: map[string]inspect.Lock{},
	}
}

// does lets one event happen, and returns what is told of it; the event "" is the end.
func (s *story) does(event string) []string {
	if s.usual = (line{}); event == "" {
		s.ends()
	} else {
		s.happens(strings.ReplaceAll(event, "JAVA", testbed.ForeignOwner))
	}
	s.settles()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = slices.DeleteFunc(s.told, func(l line) bool { return l == s.usual })
	slices.SortStableFunc(s.told, func(a, b line) int {
		if s.timed && a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Compare(a.by, b.by)
	})
	var lines []string
	for _, l := range s.told {
		text := s.named(strings.TrimSpace(l.by + " " + l.text))
		if s.timed && l.at != s.last {
			text = "+" + l.at.String() + " " + text
		}
		lines, s.last = append(lines, text), l.at
	}
	s.told = nil
	return lines
}

// settles waits until everything waits. In an untimed story of a lock over several servers some
// milliseconds pass too: a part of a red lock that was granted after the call had ended is released at the
// next tick of the keeper, and an attempt that no server answers pauses.
func (s *story) settles() {
	if !s.timed && len(s.Worlds) > 1 {
		time.Sleep(20 * time.Millisecond)
	}
	synctest.Wait()
}

// ends closes the clients, and tells what they have left behind.
func (s *story) ends() {
	for _, c := range s.calls {
		c.cancel()
	}
	for _, p := range s.peers {
		p.Heal()
		_ = p.Close()
	}
	for _, c := range s.calls {
		<-c.done
	}
	synctest.Wait()
	s.told = nil
	if keys := s.keys(); keys != "" {
		s.tell("left behind:", "%s", keys)
	}
}

// words are those of an event: options, and others.
type words struct {
	named map[string]string
	plain []string
}

// flags are words without a value.
var flags = []string{"blocks", "ended", "logs", "observed", "polledbynone", "progress", "recordsites", "says", "untold"}

func wordsOf(text string) words {
	w := words{named: map[string]string{}}
	for _, word := range strings.Fields(text) {
		if name, value, ok := strings.Cut(word, "="); ok || slices.Contains(flags, word) {
			w.named[name] = value
		} else {
			w.plain = append(w.plain, word)
		}
	}
	return w
}

func (w words) has(word string) bool {
	_, ok := w.named[word]
	return ok
}

func (w words) duration(name string) time.Duration { return duration(w.named[name]) }

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil && text != "" {
		panic(err)
	}
	return d
}

func (w words) number(name string) int {
	n, err := strconv.Atoi(w.named[name])
	if err != nil {
		panic(err)
	}
	return n
}

func (s *story) happens(event string) {
	verb, rest, _ := strings.Cut(event, " ")
	w := wordsOf(rest)
	if p := s.peers[verb]; p != nil {
		s.acts(verb, p, w)
		return
	}
	name := strings.Join(w.plain[:min(1, len(w.plain))], "")
	var h *rlock.Hold
	if c := s.calls[name]; c != nil {
		h = c.hold
	}
	calls := func(do func(ctx context.Context) error) {
		require.NotNil(s.T, h, event)
		s.begins(name, verb, w, func(ctx context.Context) (string, error) { return "ok", do(ctx) })
	}
	switch verb {
	case "each", "of", "untimed":
	case "client":
		s.peers[name] = s.NewProcess(func(c *rlock.Config) { s.configure(name, w, c) })
	case "clients":
		for _, name := range w.plain {
			s.peers[name] = s.NewProcess()
		}
	case "sleep":
		time.Sleep(duration(name))
	case "cancel":
		s.calls[name].cancel()
	case "goon":
		close(s.calls[name].goesOn)
	case "told":
		s.tell(name, "was told %d times", s.calls[name].told.Load())
	case "release":
		calls(func(ctx context.Context) error { return h.Release(ctx) })
	case "extend":
		calls(func(ctx context.Context) error { return h.Extend(ctx, duration(w.plain[1])) })
	case "pass":
		calls(func(ctx context.Context) error {
			text, err := h.Pass(ctx, duration(w.plain[1]))
			if err == nil {
				ctx.Value(callKey{}).(*call).pass = text
			}
			return err
		})
	case "write":
		calls(func(ctx context.Context) error {
			return testbed.ErrorOf(h.Write(ctx, []string{"data"}, []string{"SET", "data", "x"}, []string{"GET", "data"}))
		})
	case "releasewith":
		calls(func(ctx context.Context) error {
			return testbed.ErrorOf(h.ReleaseWith(ctx, "return redis.call('set', KEYS[1], 'x')", []string{"data"}, nil))
		})
	case "valid":
		require.NotNil(s.T, h, event)
		if h.Valid() {
			s.tell(name, "is valid for %v", time.Until(h.ValidUntil()).Round(100*time.Millisecond))
		} else {
			s.tell(name, "is not valid: %s", said(w, context.Cause(h.Context())))
		}
	case "holdtoken":
		token, err := h.Token()
		s.tell(name, "has token %d, %s", token, said(w, err))
	case "redis":
		for _, world := range s.Worlds {
			s.redis(world, name, w.plain[1:])
		}
	case "keys":
		s.tell("keys:", "%s", s.keys())
	case "channels":
		var all []string
		for _, world := range s.Worlds {
			all = append(all, testbed.LockChannels(world.Miniredis)...)
		}
		s.tell("channels:", "%s", strings.Join(all, ", "))
	case "hear":
		heard := s.NewSubscriber()
		s.T.Cleanup(heard.Close)
		heard.Subscribe(name)
		go func() {
			for m := range heard.Messages() {
				s.tell("heard:", "%s", m.Message)
			}
		}()
	case "hash":
		var all []string
		for _, field := range s.Fields(name) {
			all = append(all, s.named(field)+" "+s.HGet(name, field))
		}
		slices.Sort(all)
		s.tell("hash:", "%s", strings.Join(all, ", "))
	default:
		require.Fail(s.T, "nobody knows what this is", event)
	}
}

func (s *story) configure(name string, w words, c *rlock.Config) {
	for word, value := range w.named {
		switch word {
		case "lease":
			c.Lease = duration(value)
		case "longhold":
			c.LongHold = duration(value)
		case "longwait":
			c.LongWait = duration(value)
		case "writetimeout":
			c.Redis.ConnWriteTimeout = duration(value)
		case "prefix":
			c.Prefix = value
		case "handofflimit":
			c.Advanced.HandoffLimit = w.number(word)
		case "syncreplicas":
			c.SyncReplicas = w.number(word)
		case "observed":
			c.Observer = s.observer(name)
		case "logs":
			c.Logger = s.logger(name)
		case "recordsites":
			c.RecordSites = true
		case "polledbynone":
			c.Advanced.RedissonPolls = rlock.RedissonPollsNever
		default:
			require.Fail(s.T, "a client has no "+word)
		}
	}
}

// acts lets a client do something.
func (s *story) acts(client string, p *testbed.Peer, w words) {
	verb, who := w.plain[0], client
	if w.plain = w.plain[1:]; len(w.plain) > 0 {
		who = w.plain[0]
	}
	l, ctx, looks := s.lock(p, w), s.context(who, verb, w), inspect.Of(p.Clients[0])
	tells := func(what any, err error) { s.tell(client, "%s: %v, %s", verb, what, said(w, err)) }
	switch verb {
	case "lock":
		s.begins(who, verb, w, func(ctx context.Context) (string, error) { return "ok", l.LockFor(ctx, w.duration("lease")) })
	case "try":
		s.begins(who, verb, w, func(ctx context.Context) (string, error) {
			taken, err := l.TryLockFor(ctx, w.duration("wait"), w.duration("lease"))
			return fmt.Sprint(taken), err
		})
	case "unlock":
		s.begins(who, verb, w, func(ctx context.Context) (string, error) { return "ok", l.Unlock(ctx) })
	case "do":
		s.begins(who, verb, w, func(ctx context.Context) (string, error) {
			return "ok", l.Do(ctx, func(within context.Context) error {
				c := ctx.Value(callKey{}).(*call)
				if c.within = within; w.has("blocks") {
					<-c.goesOn
				}
				return nil
			}, s.options(who, w)...)
		})
	case "hold":
		s.holds(who, verb, w, func(ctx context.Context) (*rlock.Hold, error) { return l.Acquire(ctx, s.options(who, w)...) })
	case "resume":
		pass := ""
		if of := s.calls[w.named["of"]]; of != nil {
			pass = of.pass
		}
		s.holds(who, verb, w, func(ctx context.Context) (*rlock.Hold, error) {
			return p.Clients[0].Resume(ctx, pass, s.options(who, w)...)
		})
	case "depth":
		s.tell(who, "has depth %d", l.HoldCount(ctx))
	case "token":
		token, err := l.(*rlock.Lock).Token(ctx)
		s.tell(who, "has token %d, %s", token, said(w, err))
	case "force":
		s.begins(client, verb, w, func(ctx context.Context) (string, error) {
			freed, err := l.ForceUnlock(ctx)
			return fmt.Sprintf("%t, %s", freed, said(w, err)), nil
		})
	case "locked":
		tells(l.IsLocked(ctx))
	case "ttl":
		ttl, err := l.TTL(ctx)
		tells(cmp.Or(ttl.Round(100*time.Millisecond), ttl), err)
	case "names":
		tells(testbed.Names(ctx, p.Clients[0], strings.Join(w.plain, "")))
	case "inspect":
		shown, err := looks.Lock(ctx, cmp.Or(strings.Join(w.plain, ""), testbed.Key))
		shown.Unresolved = nil // the embedded server has no CLIENT LIST
		tells(s.fields(shown, ""), err)
	case "look":
		shown, err := looks.Lock(ctx, cmp.Or(strings.Join(w.plain, ""), testbed.Key))
		if s.looks[client] = shown; err != nil {
			tells(shown.Name, err)
		}
	case "free":
		tells(looks.ForceUnlock(ctx, s.looks[client]))
	case "held":
		for _, h := range looks.Held() {
			h.Owner, h.Since, h.ValidUntil = 0, time.Time{}, time.Time{}
			s.tell(client, "held: %s", s.fields(h, ""))
		}
	case "stats":
		stats := looks.Stats()
		if len(w.plain) == 0 {
			stats.Commands = 0 // how often some are sent again is random
		}
		s.tell(client, "stats: %s", s.fields(stats, strings.Join(w.plain, "|")))
	case "counts": // how many scripts a call sends until it waits depends on the order of goroutines
		s.sent[client] = p.Scripts()
	case "sent":
		s.tell(client, "has sent %d scripts", p.Scripts()-s.sent[client])
		s.sent[client] = p.Scripts()
	case "close":
		s.usual = line{s.elapsed(), client, "close: ok"}
		s.tell(client, "close: %s", said(w, p.Close()))
	case "net":
		p.Networks(func(n *network.Network) { s.network(n, w) })
	default:
		require.Fail(s.T, "a client does not "+verb)
	}
}

// network changes the network of a client. Three words are the fate of the next script of a kind,
// or of all: acquired hold reply.
func (s *story) network(n *network.Network, w words) {
	if w.has("roundtrip") {
		n.SetRoundTrip(w.duration("roundtrip"))
		return
	}
	if len(w.plain) == 3 {
		fate := map[string]network.Fate{"hold": network.Hold, "cut": network.Cut}[w.plain[1]]
		stage := map[string]network.Stage{"request": network.Request, "reply": network.Reply}[w.plain[2]]
		if n.Rule(testbed.Scripts(1, fate, stage, w.plain[0])); w.plain[0] == "all" {
			n.Rule(testbed.EveryScript(fate, stage))
		}
		return
	}
	change := map[string]func(){
		"silent": func() { n.Rule(network.Silence) }, "deaf": func() { n.Rule(network.Deaf) }, "open": func() { n.Rule(nil) },
		"refuse": n.Refuse, "cut": n.Cut, "heal": n.Heal, "deliver": n.Deliver,
	}[w.plain[0]]
	require.NotNil(s.T, change, w.plain)
	change()
}

// redis is what others do to a server.
func (s *story) redis(w *testbed.World, verb string, args []string) {
	switch verb {
	case "del":
		for _, key := range args {
			w.Del(key)
		}
	case "keep": // that key alone
		for _, key := range w.Keys() {
			if key != args[0] {
				w.Del(key)
			}
		}
	case "forget":
		w.FlushAll()
	case "set":
		require.NoError(s.T, w.Set(args[0], args[1]))
	case "hset":
		w.HSet(args[0], args[1:]...)
	case "hdel":
		w.HDel(args[0], args[1])
	case "zadd":
		require.NoError(s.T, testbed.ErrorOf(w.ZAdd(args[0], 1e15, args[1])))
	case "expire":
		w.SetTTL(args[0], duration(args[1]))
	case "publish":
		w.Publish(args[0], strings.Join(args[1:], " "))
	case "answers": // scripts with an error, or again as usual
		w.AnswerScripts(strings.Join(args, " "))
	default:
		require.Fail(s.T, "nobody does that to Redis", verb)
	}
}

// keys returns the keys of the servers and their times, but for counters.
func (s *story) keys() string {
	var all []string
	for _, world := range s.Worlds {
		for _, key := range slices.DeleteFunc(world.Keys(), testbed.IsCounter) {
			if left := world.Remaining(key); left > 0 {
				key += " for " + left.Round(time.Second).String()
			}
			all = append(all, key)
		}
	}
	return strings.Join(all, ", ")
}

// begins begins a call, and tells its outcome when it has one.
func (s *story) begins(who, verb string, w words, do func(ctx context.Context) (string, error)) {
	ctx, cancel := context.WithCancel(s.context(who, verb, w))
	c := &call{who: who, cancel: cancel, done: make(chan struct{}), goesOn: make(chan struct{})}
	if last := s.calls[who]; last != nil {
		c.hold, c.pass = last.hold, last.pass
	}
	s.calls[who] = c
	s.usual = line{s.elapsed(), who, verb + ": ok"}
	go func() {
		defer close(c.done)
		var text string
		err := errEnded
		defer func() {
			if why := recover(); why != nil {
				err = why.(error)
				require.ErrorIs(s.T, err, errPanics)
				require.Contains(s.T, err.Error(), ".panics(", "where it was called")
				text, err = "panics", nil
			}
			if err != nil {
				text = said(w, err)
			}
			s.tell(who, "%s: %s", verb, text)
			if holder, ok := inspect.HolderOf(err); ok && w.has("says") {
				s.tell(who, "knows {%s}", s.fields(holder, ""))
			}
		}()
		text, err = do(context.WithValue(ctx, callKey{}, c))
	}()
	s.settles()
	select {
	case <-c.done:
	default:
		s.tell(who, "%s waits", verb)
	}
}

// holds begins a call for a hold, and tells when its context ends other than by a release.
func (s *story) holds(who, verb string, w words, do func(ctx context.Context) (*rlock.Hold, error)) {
	s.begins(who, verb, w, func(ctx context.Context) (string, error) {
		h, err := do(ctx)
		if err == nil {
			ctx.Value(callKey{}).(*call).hold = h
			context.AfterFunc(h.Context(), func() {
				if cause := context.Cause(h.Context()); !errors.Is(cause, rlock.ErrNotHeld) && !w.has("untold") {
					s.tell(who+"'s context", "ends: %s", said(w, cause))
				}
			})
		}
		return "ok", err
	})
}

func (s *story) context(who, verb string, w words) context.Context {
	ctx, of := s.Ctx, func(option string) *rlock.Hold { return s.calls[w.named[option]].hold }
	switch {
	case w.has("in"):
		ctx = of("in").Context()
	case w.has("with"):
		ctx = of("with").With(ctx)
	case w.has("beyond"):
		if ctx = s.calls[w.named["beyond"]].within; ctx == nil {
			ctx = of("beyond").Context()
		}
		ctx = context.WithoutCancel(ctx)
	case w.has("past"):
		ctx = context.WithoutCancel(of("past").With(ctx))
	case w.has("as"):
	case slices.Contains([]string{"lock", "try", "unlock", "depth", "token"}, verb):
		ctx = rlock.WithOwner(ctx, s.owner(who))
	}
	if w.has("as") {
		ctx = rlock.WithOwner(ctx, s.owner(w.named["as"]))
	}
	if w.has("ended") {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx = ended
	}
	if w.has("within") {
		limited, cancel := context.WithTimeout(ctx, w.duration("within"))
		s.T.Cleanup(cancel)
		ctx = limited
	}
	return ctx
}

func (s *story) owner(name string) rlock.Owner {
	if s.owners[name] == 0 {
		s.owners[name] = rlock.NewOwner()
	}
	return s.owners[name]
}

var lockWord = regexp.MustCompile(`^(plain|fenced|fair|write|read|permits|red|rival)(\*\d+)?(/\S*)?$`)

// lockWords returns the words for locks of an event, or the one for the lock that the story is of.
func (s *story) lockWords(w words) []string {
	all := slices.Clone(w.plain[min(1, len(w.plain)):])
	if s.word == "" {
		return all
	}
	if i := slices.Index(all, "rival"); i >= 0 {
		all[i] = cmp.Or(s.rival, s.word)
	}
	if !slices.ContainsFunc(all, lockWord.MatchString) {
		all = append(all, s.word)
	}
	return all
}

// lock returns the lock that is asked for.
func (s *story) lock(p *testbed.Peer, w words) testbed.Locker {
	var parts []*rlock.Lock
	for _, word := range s.lockWords(w) {
		for part := range strings.SplitSeq(word, "+") {
			m := lockWord.FindStringSubmatch(part)
			if m == nil {
				break
			}
			_, name, named := strings.Cut(m[3], "/")
			if !named {
				name = testbed.Key
			}
			switch kind := m[1]; kind {
			case "rival":
				return p.NewLock(testbed.Key).Rival
			case "red":
				parts = append(parts, rlock.NewRedLock(p.Clients, name))
			case "permits":
				permits, _ := strconv.Atoi(strings.TrimPrefix(cmp.Or(m[2], "*1"), "*"))
				parts = append(parts, p.Clients[0].NewSemaphore(name, permits))
			default:
				parts = append(parts, testbed.Locks[kind](p.Clients[0], name))
			}
		}
	}
	switch {
	case len(parts) > 1:
		return rlock.NewMultiLock(parts...)
	case len(parts) == 1:
		return parts[0]
	case s.Kind.Lock != nil:
		return p.NewLock(testbed.Key)
	}
	return p.Clients[0].NewLock(testbed.Key)
}

func (s *story) options(who string, w words) (options []rlock.AcquireOption) {
	for word, option := range map[string]func(time.Duration) rlock.AcquireOption{
		"wait": rlock.WithWait, "lease": rlock.WithLease, "max": rlock.WithMaxHold, "min": rlock.WithMinHold, "over": rlock.WithTakeover,
	} {
		if w.has(word) {
			options = append(options, option(w.duration(word)))
		}
	}
	if w.has("permits") {
		options = append(options, rlock.WithPermits(w.number("permits")))
	}
	if w.has("note") {
		options = append(options, rlock.WithNote(strings.ReplaceAll(w.named["note"], "_", " ")))
	}
	if w.has("waiters") {
		options = append(options, rlock.WithMaxWaiters(w.number("waiters")))
	}
	if w.has("progress") {
		options = append(options, rlock.WithProgress(s.progress(s.calls[who], w.named["progress"])))
	}
	return options
}

var (
	errEnded  = errors.New("its goroutine has ended")
	errPanics = errors.New("panics")
)

func panics() { panic(errPanics) }

// progress returns a function that tells the place of a call if that has changed. After the first
// time it blocks until the event goon if there is one of these ways how it ends.
func (s *story) progress(c *call, how string) func(place, waiting int) {
	last, end := "", map[string]func(){"blocks": func() {}, "panics": panics, "exits": runtime.Goexit}[how]
	return func(place, waiting int) {
		if c.told.Add(1); end != nil {
			<-c.goesOn
			end()
		} else if now := fmt.Sprintf("is told %d of %d", place, waiting); now != last {
			last = now
			s.tell(c.who, "%s", now)
		}
	}
}
