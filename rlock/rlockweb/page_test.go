package rlockweb

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// A site is a server with clients, and a page about it.
type site struct {
	t      *testing.T
	ctx    context.Context
	option rueidis.ClientOption
	client *rlock.Client // that of the page
	log    *lines
	served *httptest.Server
	url    string // of the page, with a slash at the end
}

// newSite serves a page at "/locks/" about the locks of a server: redis-server if there is one,
// otherwise the embedded one.
func newSite(t *testing.T, options Options) *site {
	t.Helper()
	server := redistest.Embedded(t)
	if redistest.Installed() {
		server = redistest.Standalone(t)
	}
	return at(t, server.Options(), options)
}

// at serves a page about the locks of the server.
func at(t *testing.T, server rueidis.ClientOption, options Options) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Hang)
	t.Cleanup(cancel)
	s := &site{t: t, ctx: ctx, option: server, log: &lines{}}
	s.client = s.connect()
	options.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	mux := http.NewServeMux()
	mux.Handle("/locks/", Handler(s.client, options))
	s.served = httptest.NewServer(mux)
	t.Cleanup(s.served.Close)
	t.Cleanup(s.served.CloseClientConnections)
	s.url = s.served.URL + "/locks/"
	return s
}

func (s *site) connect() *rlock.Client {
	s.t.Helper()
	client, err := rlock.New(rlock.Config{Redis: s.option, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

func (s *site) take(lock *rlock.Lock, options ...rlock.AcquireOption) *rlock.Hold {
	s.t.Helper()
	hold, err := lock.Acquire(s.ctx, options...)
	require.NoError(s.t, err)
	return hold
}

// wait lets a client wait for the lock, and returns its result.
func (s *site) wait(client *rlock.Client, name string) <-chan *rlock.Hold {
	s.t.Helper()
	got := make(chan *rlock.Hold, 1)
	go func() {
		if hold, err := client.NewLock(name).Acquire(s.ctx); err == nil {
			got <- hold
		}
	}()
	require.Eventually(s.t, func() bool {
		shown, err := inspect.Of(s.client).Lock(s.ctx, name)
		return err == nil && shown.Waiting > 0
	}, redistest.Hang, time.Millisecond)
	return got
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// get reads a page, and does not follow a redirect.
func (s *site) get(path string) (*http.Response, string) {
	s.t.Helper()
	return s.do(http.MethodGet, path, nil, nil)
}

func (s *site) do(method, path string, form url.Values, head map[string]string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.ctx, method, s.url+path, strings.NewReader(form.Encode()))
	require.NoError(s.t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for key, value := range head {
		r.Header.Set(key, value)
	}
	reply, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(s.t, err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	require.NoError(s.t, err)
	return reply, string(text)
}

// A stream is what a viewer is told.
type stream struct {
	t     *testing.T
	lines *bufio.Reader
	html  map[string]string // the contents of the elements
	rows  []string          // the rows, in their order
	texts map[string]string
	close func()
}

func (s *site) watch(query string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"events"+query, nil)
	require.NoError(s.t, err)
	reply, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(s.t, err)
	require.Equal(s.t, "text/event-stream", reply.Header.Get("Content-Type"))
	s.t.Cleanup(func() { _ = reply.Body.Close() })
	return &stream{t: s.t, lines: bufio.NewReader(reply.Body), html: make(map[string]string), texts: make(map[string]string), close: cancel}
}

// next reads one event.
func (s *stream) next() error {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return err
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var c change
			require.NoError(s.t, json.Unmarshal([]byte(data), &c))
			for id, html := range c.HTML {
				s.html[id] = html
			}
			if c.Rows != nil {
				s.rows = nil
				for _, row := range c.Rows {
					if row[1] != "" {
						s.texts[row[0]] = row[1]
					}
					s.rows = append(s.rows, s.texts[row[0]])
				}
			}
			return nil
		}
	}
}

// await reads until the condition is met.
func (s *stream) await(what string, met func() bool) {
	s.t.Helper()
	for !met() {
		require.NoError(s.t, s.next(), "%s: %v %v", what, s.html, s.rows)
	}
}

// shows reports whether the n-th row has all the texts.
func (s *stream) shows(n int, texts ...string) bool {
	for _, text := range texts {
		if n >= len(s.rows) || !strings.Contains(s.rows[n], text) {
			return false
		}
	}
	return true
}

func TestTheListFollowsTheLocks(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{})
	p, q := s.connect(), s.connect()
	first := s.take(p.NewFencedLock("orders:1"), rlock.WithNote("ship <7>"))
	s.take(q.NewSemaphore("gpu", 3), rlock.WithPermits(2))
	s.take(q.NewReadWriteLock("catalogue").Read())
	list, sorted := s.watch(""), s.watch("?s=waiting&q=o")
	list.await("three locks", func() bool { return len(list.rows) == 3 })
	assert.True(t, list.shows(0, "catalogue", "read-write (read)"), list.rows)
	assert.True(t, list.shows(1, "gpu", "semaphore"), list.rows)
	assert.True(t, list.shows(2, "orders:1", "fenced", "<q>ship &lt;7&gt;</q>", `"></time>`), list.rows)
	assert.True(t, list.shows(1, "data-least"), "since when is not known")
	assert.Contains(t, list.html["summary"], "3 held, 0 waiting")

	got := s.wait(q, "orders:1")
	list.await("a waiter", func() bool { return list.shows(2, "<b>1</b> waiting") })
	sorted.await("the lock with a waiter first", func() bool {
		return sorted.shows(0, "orders:1") && sorted.shows(1, "catalogue") && len(sorted.rows) == 2
	})
	require.NoError(t, first.Release(s.ctx))
	second := redistest.Await(t, got)
	list.await("a new holder", func() bool { return list.shows(2, "/s") && !strings.Contains(list.rows[2], "waiting</td>") })
	require.NoError(t, second.Release(s.ctx))
	list.await("free", func() bool { return list.shows(2, `class="free"`) })
	s.take(p.NewLock("new"))
	list.await("a new lock", func() bool { return list.shows(2, ">new<") })
}

func TestAThousandNamesComeByPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{})
	p := s.connect()
	for n := range 350 {
		s.take(p.NewLock(fmt.Sprintf("orders:%03d", n)))
	}
	page := s.watch("?p=3")
	page.await("all names", func() bool { return strings.Contains(page.html["summary"], "350 held") })
	require.Len(t, page.rows, rowsPerPage)
	assert.True(t, page.shows(0, "orders:200"), page.rows[0])
	assert.Contains(t, page.html["pager"], "Page 3 of 4")
	assert.Contains(t, page.html["pager"], "p=2")
	last := s.watch("?p=99")
	last.await("the last page", func() bool { return strings.Contains(last.html["pager"], "Page 4 of 4") && len(last.rows) == 50 })
}

func TestTheMatcherMatchesAsKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"", []string{"", "orders"}, nil},
		{"rde", []string{"orders"}, []string{"order", "red"}[1:]},
		{"orders:*", []string{"orders:", "orders:1\n2", "orders:a/b"}, []string{"orders", "my orders:1"}},
		{"a?c", []string{"abc", "a\xffc"}, []string{"ac"}},
		{"[a-c]x", []string{"bx"}, []string{"dx", "[a-c]x"}},
		{"[^a]x", []string{"bx"}, []string{"ax"}},
		{`\*.`, []string{"*."}, []string{"a.", "*a"}},
		{"[", []string{"["}, []string{"a"}},
		{"(*", []string{"(x"}, []string{"x"}},
	} {
		for _, name := range c.yes {
			assert.True(t, matcher(c.pattern)(name), "%q %q", c.pattern, name)
		}
		for _, name := range c.no {
			assert.False(t, matcher(c.pattern)(name), "%q %q", c.pattern, name)
		}
	}
}

// The names are those of an attacker.
func TestANameIsAnyBytes(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{Unlock: true})
	p := s.connect()
	names := map[string]string{ // with what is shown
		"<script>alert(1)</script>":         "&lt;script&gt;alert(1)&lt;/script&gt;",
		`"><img src=x onerror=alert(1)>`:    `&#34;&gt;&lt;img src=x onerror=alert(1)&gt;`,
		"a\nb\x00c\u202ed":                  `&#34;a\nb\x00c\u202ed&#34;`,
		"\xff\xfe/../?&#=%00":               `&#34;\xff\xfe/../?&amp;#=%00&#34;`,
		strings.Repeat("long ", 13_000)[2:]: "… (64998 characters)",
		"日本語":                               "日本語",
	}
	for name := range names {
		s.take(p.NewLock(name))
	}
	list := s.watch("")
	list.await("all names", func() bool { return len(list.rows) == len(names) })
	all := strings.Join(list.rows, "\n")
	links := regexp.MustCompile(`href="(lock\?l=[^"]*)"`).FindAllStringSubmatch(all, -1)
	require.Len(t, links, len(names))
	assert.NotContains(t, all, "<script")
	assert.NotContains(t, all, "<img")
	for _, link := range links {
		assert.Less(t, len(link[1]), 2000)
		reply, html := s.get(link[1])
		assert.Equal(t, http.StatusOK, reply.StatusCode)
		assert.NotContains(t, strings.ReplaceAll(html, `<script src="page.js" defer>`, ""), "<script")
		lock := s.watch(strings.TrimPrefix(link[1], "lock"))
		lock.await("its holder", func() bool { return strings.Contains(lock.html["lock"], "<b>Held</b>") })
		reply, html = s.get("un" + link[1])
		assert.Equal(t, http.StatusOK, reply.StatusCode)
		shown := ""
		for _, text := range names {
			if strings.Contains(html, "Free "+text) || strings.Contains(html, text+" by force?") {
				shown = text
			}
		}
		assert.NotEmpty(t, shown, html)
		lock.close()
	}
	reply, _ := s.get("lock?l=~nothing")
	assert.Equal(t, http.StatusNotFound, reply.StatusCode)
	reply, _ = s.get("?q=%3Cscript%3E&s=%22%3E&p=-1")
	assert.Equal(t, http.StatusOK, reply.StatusCode)
}

func TestThePageOfALockTellsWhatHappens(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{Findings: func(context.Context) []Finding {
		return []Finding{{Check: "persistence", Level: "yellow", Found: "no append-only file", Risk: "a crash loses locks", Remedy: "CONFIG SET appendonly yes"}}
	}})
	p, q := s.connect(), s.connect()
	page := s.watch("?l=" + idOf("orders:1"))
	has := func(texts ...string) func() bool {
		return func() bool {
			for _, text := range texts {
				if !strings.Contains(page.html["lock"], text) {
					return false
				}
			}
			return true
		}
	}
	page.await("free", has("<b>Free</b>", "Nobody waits"))
	first := s.take(p.NewLock("orders:1"))
	page.await("taken", has("<b>Held</b>", "taken by"))
	assert.NotContains(t, page.html["lock"], "by force", "it only shows")
	got := s.wait(q, "orders:1")
	page.await("the queue", has("by message"))
	require.NoError(t, first.Release(s.ctx))
	second := redistest.Await(t, got)
	page.await("granted", has("granted to", "which had waited"))
	require.NoError(t, second.Release(s.ctx))
	page.await("released", has("<b>Free</b>", "or taken away elsewhere"))
	s.take(p.NewLock("orders:1"), rlock.WithLease(1500*time.Millisecond)) // it is not renewed
	page.await("lost", has("its lease ended, and was not renewed"))
	page.await("findings", func() bool { return strings.Contains(page.html["findings"], "CONFIG SET appendonly yes") })

	s.take(p.NewFairLock("fair"))
	lines := s.watch("?l=" + idOf("fair"))
	go func() { _, _ = q.NewFairLock("fair").Acquire(s.ctx, rlock.WithLine("<acme>")) }()
	lines.await("a line", func() bool { return strings.Contains(lines.html["lock"], "in line &lt;acme&gt;") })
}

func TestThePageOfAnotherKeySaysSo(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{})
	hold := s.take(s.connect().NewLock("orders:1"))
	other := s.connect().NewLock("orders:1").Key("data")
	_, err := hold.Write(s.ctx, []string{other}, []string{"SET", other, "data"})
	require.NoError(t, err)
	page := s.watch("?l=" + idOf(other))
	page.await("other data", func() bool { return strings.Contains(page.html["lock"], "No lock: the key has other data") })
}

func TestOnlyAPageThatMayDoesUnlock(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{})
	hold := s.take(s.connect().NewLock("orders:1"))
	shown, err := inspect.Of(s.client).Lock(s.ctx, "orders:1")
	require.NoError(t, err)
	form := url.Values{"l": {idOf("orders:1")}, "o": {shown.Holders[0].Owner}}
	reply, _ := s.get("unlock?l=" + idOf("orders:1"))
	assert.Equal(t, http.StatusForbidden, reply.StatusCode)
	reply, _ = s.do(http.MethodPost, "unlock", form, nil)
	assert.Equal(t, http.StatusForbidden, reply.StatusCode)
	require.NoError(t, hold.Release(s.ctx))
	assert.Empty(t, s.log.String())
}

func TestForceTakesAwayWhatWasShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{Unlock: true, Who: func(r *http.Request) string { return r.Header.Get("X-User") }})
	p, q := s.connect(), s.connect()
	one, other := s.take(p.NewReadWriteLock("rw").Read(), rlock.WithNote("nightly #1")), s.take(q.NewReadWriteLock("rw").Read())
	shown, err := inspect.Of(s.client).Lock(s.ctx, "rw")
	require.NoError(t, err)
	require.Len(t, shown.Holders, 2)
	owner := shown.Holders[0].Owner
	_, html := s.get("unlock?l=" + idOf("rw"))
	assert.Equal(t, 2, strings.Count(html, `name="o"`))
	_, html = s.get("unlock?l=" + idOf("rw") + "&o=" + owner)
	assert.Equal(t, 1, strings.Count(html, `name="o"`))

	form := url.Values{"l": {idOf("rw")}, "o": {owner}}
	for _, head := range []map[string]string{{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}} {
		reply, _ := s.do(http.MethodPost, "unlock", form, head)
		assert.Equal(t, http.StatusForbidden, reply.StatusCode, head)
	}
	reply, _ := s.do(http.MethodPost, "unlock", url.Values{"l": {idOf("rw")}}, nil)
	assert.Equal(t, http.StatusBadRequest, reply.StatusCode, "all of them, unnamed")
	assert.Empty(t, s.log.String())

	page := s.watch("?l=" + idOf("rw"))
	page.await("both", func() bool { return strings.Contains(page.html["lock"], owner) })
	reply, _ = s.do(http.MethodPost, "unlock", form, map[string]string{"X-User": "Ada", "Sec-Fetch-Site": "same-origin"})
	assert.Equal(t, http.StatusSeeOther, reply.StatusCode)
	assert.Equal(t, "lock?l="+idOf("rw"), reply.Header.Get("Location"))
	page.await("who it was", func() bool { return strings.Contains(page.html["lock"], "by force, by Ada") })
	assert.Regexp(t, `msg="rlockweb: a lock is taken away by force" lock=rw owners=\["?`+regexp.QuoteMeta(owner)+`"?\] who=Ada released=true`, s.log.String())

	reply, html = s.do(http.MethodPost, "unlock", form, nil)
	assert.Equal(t, http.StatusConflict, reply.StatusCode, html)
	results := map[bool]int{one.Release(s.ctx) == nil: 1}
	results[other.Release(s.ctx) == nil]++
	assert.Equal(t, map[bool]int{true: 1, false: 1}, results, "the other reader keeps the lock")
}

func TestEveryAnswerForbidsWhatThePageDoesNotHave(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{Title: "<b>shop</b>"})
	for path, code := range map[string]int{"": 200, "page.js": 200, "page.css": 200, "page.svg": 200, "lock?l=eA": 200, "nothing": 404, "page.html": 404, "?java": 200} {
		reply, html := s.get(path)
		assert.Equal(t, code, reply.StatusCode, path)
		assert.Equal(t, policy, reply.Header.Get("Content-Security-Policy"))
		assert.Equal(t, "nosniff", reply.Header.Get("X-Content-Type-Options"))
		if strings.HasPrefix(path, "page.") && code == 200 {
			continue
		}
		assert.NotContains(t, html, "<b>shop</b>")
		assert.NotContains(t, html, "style=")
		assert.NotRegexp(t, `(?i)\son[a-z]+=|<script>|<style|(href|src|action)="(/|https?:)`, html, "inline code, or a link that is not relative")
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		reply, _ := s.do(method, "", url.Values{}, nil)
		assert.Equal(t, http.StatusMethodNotAllowed, reply.StatusCode)
	}
}

// The page works below any prefix.
func TestAPrefixMayBeStripped(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{})
	handler := Handler(s.client, Options{})
	for _, c := range []struct{ target, strip, location string }{
		{"/locks", "/locks", "./locks/"},
		{"/a/locks?q=x", "/a/locks", "./locks/"},
		{"/locks/", "/locks", ""},
		{"/", "", ""},
		{"/a/b/c/", "", ""},
	} {
		w := httptest.NewRecorder()
		http.StripPrefix(c.strip, handler).ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.target, nil))
		assert.Equal(t, c.location, w.Header().Get("Location"), c.target)
		if c.location == "" {
			assert.Contains(t, w.Body.String(), `href="page.css"`, c.target)
		}
	}
}

// away serves a page about a server behind a network that can fail.
func away(t *testing.T) (*site, *network.Network) {
	t.Helper()
	dial := redistest.Embedded(t).Options().DialCtxFn
	wire := network.New(func() (net.Conn, error) { return dial(context.Background(), "", nil, nil) })
	require.NoError(t, wire.Listen())
	t.Cleanup(wire.Close)
	return at(t, rueidis.ClientOption{InitAddress: []string{wire.Addr()}, ForceSingleClient: true, DisableCache: true}, Options{}), wire
}

func TestThePageOutlivesItsServer(t *testing.T) {
	t.Parallel()
	s, wire := away(t)
	s.take(s.connect().NewLock("orders:1"))
	list := s.watch("")
	list.await("the lock", func() bool { return len(list.rows) == 1 })
	wire.Refuse()
	list.await("the failure", func() bool { return strings.Contains(list.html["banner"], "What you see is the last state") })
	assert.Len(t, list.rows, 1)
	wire.Heal()
	list.await("the recovery", func() bool { return strings.TrimSpace(list.html["banner"]) == "" })
	require.NoError(t, s.client.Close())
	list.await("the end of the client", func() bool { return strings.Contains(list.html["banner"], "closed") })
}

// A server that shuts down does not wait for those who look.
func TestAServerShutsDownWhileSomebodyLooks(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{})
	server := &http.Server{Handler: Handler(s.client, Options{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	s.url = "http://" + listener.Addr().String() + "/"
	list := s.watch("")
	require.NoError(t, list.next())
	require.NoError(t, server.Shutdown(s.ctx))
}

// What it costs is counted by the server, and by looks: how many a second there are is up to the
// constant interval.
func TestALookTakesThreeCommandsForAllViewers(t *testing.T) {
	t.Parallel()
	if !redistest.Installed() {
		t.Skip("there is no redis-server")
	}
	s := newSite(t, Options{})
	redis, err := rueidis.NewClient(s.option)
	require.NoError(t, err)
	defer redis.Close()
	for n := range 100 { // of Redisson, so that no client of rlock sends commands for them
		key := fmt.Sprint("orders:", n)
		require.NoError(t, redis.Do(s.ctx, redis.B().Hset().Key(key).FieldValue().FieldValue(fmt.Sprintf("00000000-0000-4000-8000-%012d:1", n), "1").Build()).Error())
		require.NoError(t, redis.Do(s.ctx, redis.B().Expire().Key(key).Seconds(3600).Build()).Error())
	}
	w := newWatcher(s.client)
	w.records, w.fresh, w.others = make(map[string]*record), make(map[string]bool), make(map[string]bool)
	for n := range 5 {
		v := &viewer{query: queryOf(httptest.NewRequest(http.MethodGet, fmt.Sprint("/?p=", n), nil)), news: make(chan struct{}, 1)}
		w.viewers[v] = true
	}
	// Redis counts the commands of a script as well.
	inside := regexp.MustCompile(`^(pttl|hget|hlen|hscan|get|pubsub.*|zcount|zrange|zrangebyscore|time|info)$`)
	count := func() (commands, asked int) {
		info, err := redis.Do(s.ctx, redis.B().Info().Section("commandstats").Build()).ToString()
		require.NoError(t, err)
		for _, line := range regexp.MustCompile(`cmdstat_(\S+):calls=(\d+)`).FindAllStringSubmatch(info, -1) {
			n, err := strconv.Atoi(line[2])
			require.NoError(t, err)
			if inside.MatchString(line[1]) {
				asked += n
			} else {
				commands += n
			}
		}
		return commands, asked
	}
	w.look() // the script is new to the server
	commands, asked := count()
	const looks = 10
	for range looks {
		w.look()
		for v := range w.viewers {
			assert.Len(t, w.list(v).Rows, 100)
		}
	}
	after, read := count()
	t.Logf("%.1f commands a look, which put %d questions about %d locks", float64(after-commands)/looks, (read-asked)/looks, 100)
	assert.LessOrEqual(t, after-commands, 3*looks)
	assert.LessOrEqual(t, read-asked, looks*100*10)
}

func TestNobodyLooksForNobody(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{})
	w := newWatcher(s.client)
	q := queryOf(httptest.NewRequest(http.MethodGet, "/", nil))
	one, other := w.add(q), w.add(q)
	redistest.Await(t, one.news)
	redistest.Await(t, other.news)
	w.remove(one)
	redistest.Await(t, other.news)
	w.remove(other)
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.running
	}, redistest.Hang, 10*time.Millisecond)
	again := w.add(q)
	redistest.Await(t, again.news)
	w.remove(again)
}
