package idempotent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/once"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A server is one process with a handler.
type server struct {
	*idempotent.Guard
	http.Handler
	client *rlock.Client
	runs   atomic.Int32
}

func start(t *testing.T, redis *rlocktest.Server, o idempotent.Options, handler http.HandlerFunc) *server {
	t.Helper()
	return over(t, redis.Client(func(c *rlock.Config) { c.Lease = 4 * time.Second }), o, handler)
}

func over(t *testing.T, client *rlock.Client, o idempotent.Options, handler http.HandlerFunc) *server {
	t.Helper()
	s := &server{client: client}
	o.Who = func(r *http.Request) string { return r.Header.Get("Account") }
	s.Guard = idempotent.New(s.client, o)
	s.Handler = s.Guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		handler(w, r)
	}))
	t.Cleanup(func() {
		s.Guard.Close()
		assert.Zero(t, s.Running(), "when all handlers have returned")
	})
	return s
}

// apart returns a server whose network can fail by a rule.
func apart(t *testing.T, redis *rlocktest.Server, o idempotent.Options, handler http.HandlerFunc) (*server, *network.Network) {
	t.Helper()
	option := redis.Options()
	net := network.New(func() (net.Conn, error) { return option.DialCtxFn(t.Context(), option.InitAddress[0], nil, nil) })
	t.Cleanup(net.Close)
	of := option
	of.DialCtxFn = net.Dial
	client, err := rlock.New(rlock.Config{Redis: of, Advanced: rlock.Advanced{TrackedKeys: -1}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return over(t, client, o, handler), net
}

// pay is a handler that takes a second, and answers with what it was sent.
func pay(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	select {
	case <-time.After(time.Second):
	case <-r.Context().Done():
	}
	w.Header().Set("Location", "/payments/1")
	w.Header().Set("Set-Cookie", "session")
	w.Header().Set("X-Place", "K\xf6ln, Köln") // a field in Latin-1 and in UTF-8
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "paid %s with %d", body, len(idempotent.Key(r.Context())))
}

type option func(*http.Request)

func (s *server) post(key, body string, options ...option) *httptest.ResponseRecorder {
	r, w := s.request(key, body, options...), httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func (s *server) request(key, body string, options ...option) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
	r.Header.Set("Account", "a")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for _, o := range options {
		o(r)
	}
	return r
}

const key = `"8e03978e-40d5-43dd-bc93-6894a57f9324"`

// bubble runs a test with two servers.
func bubble(t *testing.T, o idempotent.Options, handler http.HandlerFunc, run func(t *testing.T, redis *rlocktest.Server, a, b *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		redis := rlocktest.NewServer(t)
		redis.HangAfter(72 * time.Hour)
		run(t, redis, start(t, redis, o, handler), start(t, redis, o, handler))
	})
}

func TestARepeatedRequestGetsTheResponseOfTheFirst(t *testing.T) {
	bubble(t, idempotent.Options{Keep: time.Hour}, pay, func(t *testing.T, _ *rlocktest.Server, a, b *server) {
		responses := make(chan *httptest.ResponseRecorder, 10)
		for i := range 10 { // at the same time
			go func() { responses <- []*server{a, b}[i%2].post(key, "7") }()
		}
		cookies := 0
		for range 10 {
			w := <-responses
			assert.Equal(t, http.StatusCreated, w.Code)
			assert.Equal(t, "paid 7 with 44", w.Body.String())
			assert.Equal(t, "/payments/1", w.Header().Get("Location"))
			assert.Equal(t, "K\xf6ln, Köln", w.Header().Get("X-Place"))
			cookies += len(w.Header().Values("Set-Cookie"))
		}
		assert.Equal(t, 1, cookies, "that of the first")
		time.Sleep(59 * time.Minute)
		assert.Equal(t, "paid 7 with 44", b.post(key, "7").Body.String())
		assert.EqualValues(t, 1, a.runs.Load()+b.runs.Load())
		assert.Equal(t, "paid 7 with 44", a.post(key, "7", func(r *http.Request) { r.Host, r.RequestURI = "EXAMPLE.com:8080", "" }).Body.String(), "another port, and no request of a client")
		assert.EqualValues(t, 1, a.runs.Load()+b.runs.Load())
		assert.Equal(t, http.StatusUnprocessableEntity, a.post(key, "8").Code, "another request")
		for name, o := range map[string]option{
			"another account": func(r *http.Request) { r.Header.Set("Account", "b") },
			"another path":    func(r *http.Request) { r.RequestURI = "/refunds" },
			"another host":    func(r *http.Request) { r.Host = "other.example" },
			"another method":  func(r *http.Request) { r.Method = http.MethodPatch },
		} {
			before := a.runs.Load()
			assert.Equal(t, http.StatusCreated, a.post(key, "7", o).Code)
			assert.Equal(t, before+1, a.runs.Load(), name)
		}
		time.Sleep(2 * time.Hour)
		before := a.runs.Load()
		a.post(key, "7")
		assert.Equal(t, before+1, a.runs.Load(), "it is forgotten")
	})
}

func TestRequestsThatAreRefused(t *testing.T) {
	bubble(t, idempotent.Options{Wait: time.Nanosecond, MostBody: 10}, pay, func(t *testing.T, redis *rlocktest.Server, a, b *server) {
		for _, bad := range []string{
			"", `""`, `"x`, `"a" "b"`, `"a", "b"`, `a, b`, `a b`, `a"b`, `"a\x"`, `"a\`, "\"\x00\"", `"é"`, "é", ";p", `"a";`, `"a";P`, `"a";1`, `"a";p=`, `"a";p="`,
			`"` + strings.Repeat("x", 256) + `"`, strings.Repeat("x", 256),
		} {
			w := a.post(bad, "7")
			assert.Equal(t, http.StatusBadRequest, w.Code, bad)
			assert.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		}
		assert.Equal(t, http.StatusRequestEntityTooLarge, a.post(key, strings.Repeat("x", 11)).Code)
		cut := io.NopCloser(iotest.ErrReader(errors.New("the client has left")))
		assert.Equal(t, http.StatusBadRequest, a.post(key, "", func(r *http.Request) { r.Body = cut }).Code)
		assert.Equal(t, http.StatusCreated, a.post("", "7", func(r *http.Request) { r.Method = http.MethodGet }).Code, "it needs no key")
		assert.EqualValues(t, 1, a.runs.Load())

		slow := start(t, redis, idempotent.Options{}, func(w http.ResponseWriter, _ *http.Request) { time.Sleep(time.Minute) })
		first := make(chan int)
		go func() { first <- slow.post(key, "7").Code }()
		synctest.Wait()
		began := time.Now()
		w := b.post(key, "7")
		assert.Equal(t, http.StatusConflict, w.Code)
		assert.Equal(t, "1", w.Header().Get("Retry-After"))
		assert.Equal(t, time.Second/2, time.Since(began), "the least wait")
		assert.Equal(t, http.StatusOK, <-first, "it waits for its own handler")

		optional := start(t, redis, idempotent.Options{Optional: true, Prefix: "optional:"}, pay)
		for _, may := range []string{"", "", key, key} {
			assert.Equal(t, http.StatusCreated, optional.post(may, "7").Code)
		}
		assert.EqualValues(t, 3, optional.runs.Load())
	})
}

// The client of a request learns no more than 503: the log has the reason.
func TestAnErrorForGoodIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		redis := rlocktest.NewServer(t)
		client := redis.Client(func(c *rlock.Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
		a := over(t, client, idempotent.Options{Wait: time.Second}, pay)
		messages := func() int {
			synctest.Wait()
			return strings.Count(logged.String(), "get 503")
		}
		redis.Refuse("LOADING Redis is loading the dataset in memory", "evalsha", "eval")
		assert.Equal(t, http.StatusServiceUnavailable, a.post(key, "7").Code)
		assert.Zero(t, messages(), "it may be over soon")
		redis.Refuse("NOPERM this user has no permissions to run the 'evalsha' command", "evalsha", "eval")
		for range 2 {
			assert.Equal(t, http.StatusServiceUnavailable, a.post(key, "7").Code)
		}
		assert.Equal(t, 1, messages())
		assert.Contains(t, logged.String(), "permission")
		time.Sleep(time.Minute)
		a.post(key, "7")
		assert.Equal(t, 2, messages())
		redis.Heal()
	})
}

// The same key with quotes and without, and with parameters, is one.
func TestAKeyWithoutQuotesIsTheSame(t *testing.T) {
	bubble(t, idempotent.Options{}, pay, func(t *testing.T, _ *rlocktest.Server, a, b *server) {
		uuid := strings.Trim(key, `"`)
		for _, same := range []string{key, uuid, " " + uuid + " ", key + ";p", key + "; p=1;q=\"x;\\\"y\"", uuid + ";a=?1;b=:aGk=:;*c=tok/en"} {
			assert.Equal(t, http.StatusCreated, b.post(same, "7").Code, same)
		}
		assert.EqualValues(t, 1, b.runs.Load())
		for _, other := range []string{`"a\"b"`, `"a\\b"`, "0", "a/b+c=", `"a, b"`, `" ~"`, "!~", strings.Repeat("x", 255)} {
			assert.Equal(t, http.StatusCreated, a.post(other, "7").Code, other)
		}
		assert.EqualValues(t, 8, a.runs.Load())
	})
}

// The key is made of the target that the client has sent: handlers before the guard do not change
// it.
func TestARouteBehindAStrippedPrefixHasKeysOfItsOwn(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) }
	bubble(t, idempotent.Options{}, echo, func(t *testing.T, _ *rlocktest.Server, a, _ *server) {
		for _, target := range []string{"/charge/42", "/refund/42", "/refund/%34%32", "/charge/a://b/", "/refund/a://b/"} {
			prefix := target[:len("/charge")]
			stripped := http.StripPrefix(prefix, a.Handler)
			for range 2 {
				r := httptest.NewRequest(http.MethodPost, target, nil)
				r.Header.Set("Idempotency-Key", key)
				w := httptest.NewRecorder()
				stripped.ServeHTTP(w, r)
				assert.Equal(t, target, w.Body.String())
			}
		}
		r := httptest.NewRequest(http.MethodPost, "http://example.com/charge/42", nil) // as a proxy is asked
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		assert.Equal(t, "/charge/42", w.Body.String(), "that of the first")
		assert.EqualValues(t, 5, a.runs.Load())
	})
}

// Redis is away, or silent: that is no conflict. A request that is being processed in this process
// is one all the same.
func TestARedisThatIsAwayIsUnavailable(t *testing.T) {
	for what, away := range map[string]func(*rlocktest.Server, *rlock.Client){
		"cut":    func(redis *rlocktest.Server, c *rlock.Client) { redis.Cut(c) },
		"silent": func(redis *rlocktest.Server, c *rlock.Client) { redis.Silence(c) },
	} {
		for _, processed := range []bool{false, true} {
			slow := func(w http.ResponseWriter, _ *http.Request) { time.Sleep(3 * time.Second) }
			bubble(t, idempotent.Options{Wait: 2 * time.Second}, slow, func(t *testing.T, redis *rlocktest.Server, a, b *server) {
				first := make(chan int, 1)
				if processed {
					go func() { first <- a.post(key, "7").Code }()
					synctest.Wait()
				}
				away(redis, b.client)
				began := time.Now()
				w := b.post(key, "7")
				assert.Equal(t, http.StatusServiceUnavailable, w.Code, what)
				assert.Equal(t, "1", w.Header().Get("Retry-After"), what)
				assert.Equal(t, 2*time.Second, time.Since(began), what)
				assert.Zero(t, b.runs.Load(), what)
				if processed {
					assert.Equal(t, http.StatusOK, <-first, what)
				}
			})
		}
		bubble(t, idempotent.Options{Wait: time.Second}, pay, func(t *testing.T, redis *rlocktest.Server, a, _ *server) {
			go a.post(key, "7")
			synctest.Wait()
			away(redis, a.client)
			assert.Equal(t, http.StatusConflict, a.post(key, "7").Code, what)
		})
	}
}

// A response that is no result is that of its request alone, and the handler runs again.
func TestResponsesThatAreNoResults(t *testing.T) {
	type answer struct {
		status  int
		notDone bool // the handler says so
	}
	asked := idempotent.Options{Result: func(status int) bool { return status < 500 }}
	for _, x := range []struct {
		answer
		o    idempotent.Options
		kept bool
	}{
		{answer{status: 201}, idempotent.Options{}, true},
		{answer{status: 404}, idempotent.Options{}, true},
		{answer{status: 422}, idempotent.Options{}, true},
		{answer{status: 408}, idempotent.Options{}, false},
		{answer{status: 409}, idempotent.Options{}, false},
		{answer{status: 423}, idempotent.Options{}, false},
		{answer{status: 425}, idempotent.Options{}, false},
		{answer{status: 429}, idempotent.Options{}, false},
		{answer{status: 500}, idempotent.Options{}, false},
		{answer{status: 409}, asked, true},
		{answer{status: 503}, asked, false},
		{answer{status: 404, notDone: true}, idempotent.Options{}, false},
		{answer{status: 200, notDone: true}, idempotent.Options{}, false},
		{answer{status: 409, notDone: true}, asked, false},
	} {
		first := true
		handler := func(w http.ResponseWriter, r *http.Request) {
			if !first {
				w.WriteHeader(http.StatusCreated)
				return
			}
			first = false
			if x.notDone {
				idempotent.NotDone(r.Context())
			}
			w.WriteHeader(x.status)
		}
		bubble(t, x.o, handler, func(t *testing.T, _ *rlocktest.Server, a, b *server) {
			later := http.StatusCreated
			if x.kept {
				later = x.status
			}
			assert.Equal(t, x.status, a.post(key, "7").Code, x)
			assert.Equal(t, later, b.post(key, "7").Code, x)
		})
	}
	idempotent.NotDone(t.Context()) // a handler without a key
}

// The connection breaks at one command of a request, before Redis has it or after. The client
// repeats its request as long as it gets no result: the handler has one, and each later request
// gets that.
func TestABrokenConnectionLeavesNoOutcomeUnknown(t *testing.T) {
	for _, stage := range []network.Stage{network.Request, network.Reply} {
		for n := 1; n <= 6; n++ {
			for _, results := range [][]int{{http.StatusCreated}, {http.StatusServiceUnavailable, http.StatusCreated}} {
				what := fmt.Sprint(stage, n, results)
				synctest.Test(t, func(t *testing.T) {
					redis := rlocktest.NewServer(t)
					left := results
					handler := func(w http.ResponseWriter, r *http.Request) {
						time.Sleep(time.Second)
						assert.Contains(t, fmt.Sprint(redis.Miniredis().Keys()), idempotent.Key(r.Context())+"}:began", what)
						w.WriteHeader(left[0])
						left = left[1:]
					}
					s, net := apart(t, redis, idempotent.Options{Wait: 5 * time.Second}, handler)
					other := start(t, redis, idempotent.Options{}, handler)
					left = []int{http.StatusCreated, http.StatusServiceUnavailable}
					s.post(`"warm"`, "7") // the server knows the scripts
					s.post(`"warm too"`, "7")
					left = results
					before := s.runs.Load()
					net.Rule(network.Nth(n, network.Cut, stage, "EVALSHA"))
					codes := []int{}
					for range results {
						codes = append(codes, s.post(key, "7").Code)
					}
					assert.Equal(t, results, codes, what)
					assert.Equal(t, http.StatusCreated, s.post(key, "7").Code, what)
					assert.Equal(t, http.StatusCreated, other.post(key, "7").Code, what)
					assert.EqualValues(t, len(results), s.runs.Load()-before, what)
				})
			}
		}
	}
}

// A mark that cannot be cleared while Redis is away is cleared when it is there again, behind the
// response.
func TestAMarkIsClearedWhenRedisIsThereAgain(t *testing.T) {
	var redis *rlocktest.Server
	var s *server
	code := http.StatusServiceUnavailable
	synctest.Test(t, func(t *testing.T) {
		redis = rlocktest.NewServer(t)
		redis.HangAfter(time.Hour)
		handler := func(w http.ResponseWriter, _ *http.Request) {
			if code != http.StatusCreated {
				redis.Cut(s.client)
			}
			w.WriteHeader(code)
		}
		s = start(t, redis, idempotent.Options{}, handler)
		began := time.Now()
		assert.Equal(t, http.StatusServiceUnavailable, s.post(key, "7").Code)
		assert.LessOrEqual(t, time.Since(began), 10*time.Second)
		time.Sleep(time.Minute)
		redis.Heal(s.client)
		time.Sleep(5 * time.Second)
		code = http.StatusCreated
		assert.Equal(t, http.StatusCreated, s.post(key, "7").Code)
		assert.EqualValues(t, 2, s.runs.Load())

		code = http.StatusServiceUnavailable
		assert.Equal(t, http.StatusServiceUnavailable, s.post(`"other"`, "7").Code)
		time.AfterFunc(time.Second, func() { redis.Heal(s.client) })
		s.Close()
		assert.Equal(t, 1, strings.Count(fmt.Sprint(redis.Miniredis().Keys()), ":began"), "when Close returns, only the first request has one")

		s = start(t, redis, idempotent.Options{}, handler)
		assert.Equal(t, http.StatusServiceUnavailable, s.post(`"last"`, "7").Code)
		began = time.Now()
		s.Close()
		assert.LessOrEqual(t, time.Since(began), 10*time.Second, "Redis is away")
	})
}

// A request whose wait ends in the moment in which its mark is set runs no handler, and leaves no
// mark: the outcome is known.
func TestARequestThatHasJustLeftLeavesNoMark(t *testing.T) {
	bubble(t, idempotent.Options{}, pay, func(t *testing.T, _ *rlocktest.Server, a, b *server) {
		require.Error(t, a.RunLeft(a.request(key, "7"), a.Handler))
		assert.Zero(t, a.runs.Load())
		assert.Equal(t, http.StatusCreated, b.post(key, "7").Code)
	})
	synctest.Test(t, func(t *testing.T) { // Redis sets the mark, and is silent
		s, net := apart(t, rlocktest.NewServer(t), idempotent.Options{Wait: time.Second}, pay)
		s.post(`"warm"`, "7")
		marks := false
		net.Rule(func(f network.Frame) network.Fate {
			marks = marks || strings.Contains(strings.Join(f.Args, " "), ":began")
			if marks && f.Stage == network.Reply {
				return network.Hold
			}
			return network.Pass
		})
		assert.Equal(t, http.StatusServiceUnavailable, s.post(key, "7").Code)
		net.Heal()
		assert.Equal(t, http.StatusCreated, s.post(key, "7").Code)
	})
}

// slow is a handler that takes a second, whatever becomes of its request.
func slow(w http.ResponseWriter, _ *http.Request) {
	time.Sleep(time.Second)
	w.WriteHeader(http.StatusCreated)
}

// A request whose handler goes on when the guard is closed gets 503, unless it has left, and a later
// one the response. If the handler returns at once, the request gets either.
func TestCloseWhileAHandlerRuns(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		bubble(t, idempotent.Options{}, slow, func(t *testing.T, _ *rlocktest.Server, a, b *server) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			first := make(chan int, 1)
			go func() { first <- a.post(key, "7", func(r *http.Request) { *r = *r.WithContext(ctx) }).Code }()
			synctest.Wait()
			if leaves {
				cancel()
				<-first
			}
			a.Close()
			if !leaves {
				assert.Equal(t, http.StatusServiceUnavailable, <-first)
			}
			assert.Equal(t, http.StatusCreated, b.post(key, "7").Code)
			assert.Zero(t, b.runs.Load())
		})
	}
}

// A server that dies in its handler leaves an unknown outcome, for Keep, or the handler is run
// again by choice.
func TestAServerThatDiesInItsHandler(t *testing.T) {
	for _, again := range []bool{false, true} {
		hang := func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Hangs") != "" {
				<-r.Context().Done()
			}
		}
		bubble(t, idempotent.Options{Again: again, Wait: time.Second, Keep: 3 * time.Minute}, hang, func(t *testing.T, redis *rlocktest.Server, a, b *server) {
			go a.post(key, "7", func(r *http.Request) { r.Header.Set("Hangs", "1") })
			synctest.Wait()
			redis.Kill(a.client)
			assert.Equal(t, http.StatusConflict, b.post(key, "7").Code, "within the lease")
			time.Sleep(5 * time.Second)
			want := map[bool]int{false: http.StatusInternalServerError, true: http.StatusOK}[again]
			for i, code := range []int{want, want, http.StatusOK} { // the last one after Keep
				time.Sleep(time.Duration(i) * 2 * time.Minute)
				assert.Equal(t, code, b.post(key, "7").Code)
			}
			assert.EqualValues(t, map[bool]int32{false: 1, true: 2}[again], b.runs.Load())
		})
	}
}

// The panic goes on in the goroutine of the request, and shows where it began.
func TestThePanicOfAHandlerHasItsStack(t *testing.T) {
	reason := errors.New("a reason")
	fails := func(http.ResponseWriter, *http.Request) { panic(reason) }
	bubble(t, idempotent.Options{}, fails, func(t *testing.T, _ *rlocktest.Server, a, _ *server) {
		defer func() {
			err, _ := recover().(error)
			require.ErrorIs(t, err, reason)
			assert.Contains(t, err.Error(), "TestThePanicOfAHandlerHasItsStack.func1(")
		}()
		a.post(key, "7")
	})
}

// An operator says what became of a request whose outcome is unknown, or that it may be processed
// again.
func TestAnOperatorSettlesAnUnknownOutcome(t *testing.T) {
	var keys []string
	handler := func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, idempotent.Key(r.Context()))
		if r.Header.Get("Fails") != "" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
	}
	fails := func(r *http.Request) { r.Header.Set("Fails", "1") }
	bubble(t, idempotent.Options{MostResponse: 100}, handler, func(t *testing.T, _ *rlocktest.Server, a, b *server) {
		ctx := t.Context()
		assert.Panics(t, func() { a.post(key, "7", fails) })
		w := b.post(key, "7")
		assert.Equal(t, http.StatusInternalServerError, w.Code)
		var told struct{ Key string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &told))
		require.Equal(t, keys[0], told.Key)
		for _, bad := range []idempotent.Response{{}, {Status: 100}, {Status: 1000}, {Status: 200, Body: make([]byte, 101)}} {
			require.ErrorIs(t, b.Settle(ctx, told.Key, bad), idempotent.ErrInvalidResponse)
		}
		header := http.Header{"Location": {"/payments/1"}, "Set-Cookie": {"session"}, "content-length": {"9"}} // as of a response to the job
		paid := idempotent.Response{Status: http.StatusAccepted, Header: header, Body: []byte("paid")}
		require.NoError(t, b.Settle(ctx, told.Key, paid))
		for _, s := range []*server{a, b} {
			w := s.post(key, "7")
			assert.Equal(t, http.StatusAccepted, w.Code)
			assert.Equal(t, http.Header{"Location": {"/payments/1"}}, w.Header())
			assert.Equal(t, "paid", w.Body.String())
			assert.Equal(t, http.StatusUnprocessableEntity, s.post(key, "8").Code, "it is not like the first one")
		}
		require.ErrorIs(t, a.Settle(ctx, told.Key, idempotent.Response{Status: http.StatusOK}), idempotent.ErrSettled)
		assert.Equal(t, http.StatusAccepted, b.post(key, "7").Code)

		require.NoError(t, a.Forget(ctx, told.Key))
		time.Sleep(time.Millisecond)
		assert.Equal(t, http.StatusCreated, b.post(key, "7").Code, "the handler is run")
		assert.Equal(t, http.StatusCreated, a.post(key, "7").Code)
		assert.Len(t, keys, 2)

		assert.Panics(t, func() { a.post(`"other"`, "7", fails) })
		require.NoError(t, b.Forget(ctx, keys[2]))
		time.Sleep(time.Millisecond)
		assert.Equal(t, http.StatusCreated, b.post(`"other"`, "7").Code, "the mark is forgotten, too")
		require.NoError(t, b.Forget(ctx, keys[2]))
		time.Sleep(time.Millisecond)
		require.NoError(t, b.Settle(ctx, keys[2], paid))
		for _, body := range []string{"7", "8"} {
			assert.Equal(t, http.StatusAccepted, a.post(`"other"`, body).Code, "it was settled without a request, and is for all")
		}
		for i, good := range []idempotent.Response{paid, {Status: 200}, {Status: 999, Body: make([]byte, 100)}} {
			require.NoError(t, a.Settle(ctx, fmt.Sprint("idempotency:", i), good), "of a key without a request")
		}
	})
}

// Forget without a right changes nothing, and keeps no lock.
func TestForgetWithoutARight(t *testing.T) {
	name := ""
	handler := func(w http.ResponseWriter, r *http.Request) {
		name = idempotent.Key(r.Context())
		w.WriteHeader(http.StatusCreated)
	}
	bubble(t, idempotent.Options{}, handler, func(t *testing.T, redis *rlocktest.Server, a, b *server) {
		a.post(key, "7")
		for _, command := range []string{"del", "pttl"} {
			redis.Refuse("NOPERM this user has no permissions to run the '"+command+"' command", command)
			began := time.Now()
			require.ErrorIs(t, a.Forget(t.Context(), name), rlock.ErrNoPermission)
			assert.Less(t, time.Since(began), time.Second)
			redis.Heal()
			assert.Empty(t, inspect.Of(a.client).Held())
			assert.Equal(t, http.StatusCreated, b.post(key, "7").Code)
			assert.Zero(t, b.runs.Load(), "the response is still kept")
		}
	})
}

// The key is not locked for longer than a request, or the caller of Forget, waits, or than it has the
// lock.
func TestForgetEndsWithItsContextOrItsLock(t *testing.T) {
	bubble(t, idempotent.Options{}, pay, func(t *testing.T, redis *rlocktest.Server, a, _ *server) {
		redis.Refuse("LOADING Redis is loading the dataset in memory", "set", "del")
		assert.Equal(t, http.StatusConflict, a.post(key, "7").Code, "it waits for its mark")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, a.Forget(ctx, "idempotency:1"), context.DeadlineExceeded)
		time.Sleep(time.Second)
		assert.Empty(t, inspect.Of(a.client).Held())
		forgets := make(chan error, 1)
		go func() { forgets <- a.Forget(t.Context(), "idempotency:1") }()
		synctest.Wait()
		redis.Miniredis().Del("idempotency:1")
		require.ErrorIs(t, <-forgets, rlock.ErrLost)
		redis.Heal()
	})
}

// Settle and Forget wait for a handler that runs: what it says counts.
func TestAnOperatorWaitsForTheHandler(t *testing.T) {
	bubble(t, idempotent.Options{}, pay, func(t *testing.T, _ *rlocktest.Server, a, b *server) {
		name := ""
		first := make(chan int, 1)
		go func() { first <- a.post(key, "7").Code }()
		synctest.Wait()
		for _, use := range inspect.Of(b.client).Held() {
			name = use.Name
		}
		for _, use := range inspect.Of(a.client).Held() {
			name = use.Name
		}
		require.NotEmpty(t, name)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		require.ErrorIs(t, b.Forget(ctx, name), context.DeadlineExceeded)
		require.ErrorIs(t, b.Settle(t.Context(), name, idempotent.Response{Status: http.StatusOK}), idempotent.ErrSettled)
		assert.Equal(t, http.StatusCreated, <-first)
		require.NoError(t, b.Forget(t.Context(), name))
		time.Sleep(time.Millisecond)
		a.post(key, "7")
		assert.EqualValues(t, 2, a.runs.Load())
	})
}

// A request whose context is fresh gets a kept response all the same, and its handler has that
// context.
func TestAFreshRequestIsNoOtherRequest(t *testing.T) {
	reads := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, fmt.Sprint(contract.IsFresh(r.Context())))
	}
	bubble(t, idempotent.Options{}, reads, func(t *testing.T, _ *rlocktest.Server, a, b *server) {
		for _, s := range []*server{a, b} {
			w := s.post(key, "7", func(r *http.Request) { *r = *r.WithContext(once.Fresh(r.Context())) })
			assert.Equal(t, "true", w.Body.String())
		}
		assert.EqualValues(t, 1, a.runs.Load()+b.runs.Load())
	})
}

func TestTheLongestResponseIsKept(t *testing.T) {
	const most = 1 << 20 // by default
	longest := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, most)) }
	bubble(t, idempotent.Options{}, longest, func(t *testing.T, _ *rlocktest.Server, a, b *server) {
		for _, s := range []*server{a, b} {
			w := s.post(key, "7")
			assert.Equal(t, http.StatusOK, w.Code)
			assert.Equal(t, most, w.Body.Len())
		}
		assert.Zero(t, b.runs.Load())
	})
}

// A response that is too long is passed on while the handler runs, and not held in memory. Nothing
// is written to a request that has left, and its handler goes on.
func TestALongResponseOfAClientThatLeaves(t *testing.T) {
	var written error
	ended := false
	long := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-A", "1")
		w.WriteHeader(http.StatusAccepted)
		for range 3 {
			_, _ = io.WriteString(w, strings.Repeat("x", 100))
			time.Sleep(time.Second)
		}
		_, written = io.WriteString(w, "y")
		ended = true
	}
	bubble(t, idempotent.Options{MostResponse: 150}, long, func(t *testing.T, redis *rlocktest.Server, a, b *server) {
		ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
		defer cancel()
		w := a.post(key, "7", func(r *http.Request) { *r = *r.WithContext(ctx) })
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, ended)
		require.NoError(t, written)
		assert.Equal(t, http.StatusAccepted, w.Code)
		assert.Equal(t, "1", w.Result().Header.Get("X-A"))
		assert.Equal(t, 300, w.Body.Len())
		assert.Equal(t, http.StatusInternalServerError, b.post(key, "7").Code)
		assert.Zero(t, b.runs.Load())
		for _, name := range redis.Miniredis().Keys() {
			assert.Less(t, len(redis.Miniredis().HGet(name, "v")), 100, "the body is not stored")
		}
	})
}

// The fields of the handlers around the guard are theirs: a kept response has what its handler has
// set and added.
func TestTheHeaderOfOuterHandlersIsJoined(t *testing.T) {
	handler := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Vary", "Accept")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Language", "de")
		w.Header().Del("X-Powered-By")
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "it")
	}
	bubble(t, idempotent.Options{}, handler, func(t *testing.T, _ *rlocktest.Server, a, b *server) {
		for id, s := range []*server{a, b, a} {
			w := httptest.NewRecorder()
			w.Header().Set("Vary", "Origin")
			w.Header().Set("Cache-Control", "private")
			w.Header().Set("X-Powered-By", "outer")
			w.Header().Set("X-Request-Id", fmt.Sprint(id))
			if id > 0 {
				w.Header().Set("Content-Language", "en")
			}
			s.ServeHTTP(w, s.request(key, "7"))
			assert.Equal(t, []string{"Origin", "Accept"}, w.Header().Values("Vary"))
			assert.Equal(t, []string{"no-store"}, w.Header().Values("Cache-Control"))
			assert.Equal(t, []string{"de"}, w.Header().Values("Content-Language"))
			assert.Empty(t, w.Header().Values("X-Powered-By"))
			assert.Equal(t, fmt.Sprint(id), w.Header().Get("X-Request-Id"))
			assert.Contains(t, w.Header(), "Content-Type", "it is not to be guessed")
			assert.Equal(t, "it", w.Body.String())
		}
		assert.EqualValues(t, 1, a.runs.Load()+b.runs.Load())
	})
}

func TestAnInvalidStatusIsRefusedAtOnce(t *testing.T) {
	for status, valid := range map[int]bool{0: false, 99: false, 100: true, 999: true, 1000: false} {
		after := false
		bubble(t, idempotent.Options{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); after = true },
			func(t *testing.T, _ *rlocktest.Server, a, _ *server) {
				if valid {
					a.post(key, "7")
				} else {
					assert.Panics(t, func() { a.post(key, "7") })
				}
				assert.Equal(t, valid, after, status)
			})
	}
}

// A panic after its client has left is logged where the server logs the others.
func TestAPanicAfterTheClientHasLeftIsLogged(t *testing.T) {
	var text strings.Builder
	own := log.New(&text, "", 0)
	log.SetOutput(&text)
	defer log.SetOutput(os.Stderr)
	for _, x := range []struct {
		value  any
		log    *log.Logger
		logged bool
	}{{"a late panic", own, true}, {"a late panic", nil, true}, {http.ErrAbortHandler, own, false}} {
		late := func(http.ResponseWriter, *http.Request) { time.Sleep(2 * time.Second); panic(x.value) }
		bubble(t, idempotent.Options{}, late, func(t *testing.T, _ *rlocktest.Server, a, b *server) {
			text.Reset()
			ctx := context.WithValue(context.Background(), http.ServerContextKey, &http.Server{ErrorLog: x.log})
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			a.post(key, "7", func(r *http.Request) { *r = *r.WithContext(ctx) })
			time.Sleep(2 * time.Second)
			synctest.Wait()
			assert.Equal(t, x.logged, strings.Contains(text.String(), fmt.Sprint(x.value)), text.String())
			assert.Contains(t, b.post(key, "7").Body.String(), "the outcome of an earlier request")
		})
	}
}
