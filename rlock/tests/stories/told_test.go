package stories_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

func (s *story) tell(by, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, line{s.elapsed(), by, fmt.Sprintf(format, args...)})
}

func (s *story) elapsed() time.Duration { return time.Since(s.began).Round(10 * time.Millisecond) }

// sentinels are the errors that a caller would compare with.
var sentinels = []error{rlock.ErrClosed, rlock.ErrFenced, rlock.ErrHeldTooLong, rlock.ErrTakenOver, rlock.ErrLost, rlock.ErrNotPassed, rlock.ErrPassed, rlock.ErrPass,
	rlock.ErrInvalidPass, rlock.ErrNotHeld, rlock.ErrTooManyWaiters, rlock.ErrNotAcquired, rlock.ErrUpgrade, rlock.ErrUnconfirmed, rlock.ErrInvalidName,
	rlock.ErrInvalidLease, rlock.ErrInvalidConfig, rlock.ErrPermits, rlock.ErrWrongType, rlock.ErrNoToken, rlock.ErrNotReplicated, rlock.ErrNoPermission,
	rlock.ErrUnsupported, errors.ErrUnsupported, context.Canceled, context.DeadlineExceeded}

// said names the sentinels that err is, or returns its text.
func said(w words, err error) string {
	if err == nil {
		return "ok"
	}
	var names []string
	for _, known := range sentinels {
		if errors.Is(err, known) {
			names = append(names, strings.TrimPrefix(known.Error(), "rlock: "))
		}
	}
	if w.has("says") || len(names) == 0 {
		lines := strings.Split(err.Error(), "\n") // those of parts have no order
		slices.Sort(lines)
		return strings.Join(lines, "; ")
	}
	return strings.Join(names, ", ")
}

// fields returns the fields whose names match and that are not zero.
func (s *story) fields(of any, match string) string {
	var text []string
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		name, f, begin := v.Type().Field(i).Name, v.Field(i), len(text)
		switch {
		case f.IsZero() || !regexp.MustCompile(match).MatchString(name):
		case f.Kind() == reflect.Slice:
			for j := range f.Len() {
				text = append(text, s.named(name+" {"+s.fields(f.Index(j).Interface(), "")+"}"))
			}
			if name == "Holders" { // which have no order
				slices.Sort(text[begin:])
			}
		case f.Type() == reflect.TypeFor[time.Time]():
			text = append(text, fmt.Sprint(name, " ", time.Since(f.Interface().(time.Time)).Round(time.Millisecond), " ago"))
		default:
			text = append(text, fmt.Sprint(name, " ", f.Interface()))
		}
	}
	return strings.Join(text, ", ")
}

var (
	site     = regexp.MustCompile(`\S+_test\.go:\d+ \S+`)
	clock    = regexp.MustCompile(`at \d\d:\d\d:\d\d`)
	nameless = regexp.MustCompile(`(<\w+>:)[1-9]\d*|\b\d{7,}\b`) // the owner of a hold or of Do
)

// named puts names in place of text that differs from run to run: ids, sites, times.
func (s *story) named(text string) string {
	for name, p := range s.peers {
		for _, c := range p.Clients {
			id := inspect.Of(c).ID()
			text = regexp.MustCompile(id+`([0-9a-f]{4}-[0-9a-f]{12})?`).ReplaceAllString(text, "<"+name+">")
		}
	}
	for name, owner := range s.owners {
		text = strings.ReplaceAll(text, fmt.Sprint(owner), name)
	}
	text = strings.ReplaceAll(text, testbed.ForeignOwner, "JAVA")
	text = site.ReplaceAllString(text, "SITE")
	text = clock.ReplaceAllString(text, "at CLOCK")
	return nameless.ReplaceAllString(text, "${1}N")
}

// observer tells the calls of an Observer, in the name of their caller.
func (s *story) observer(client string) *rlock.Observer {
	caller := func(ctx context.Context) string {
		if c, ok := ctx.Value(callKey{}).(*call); ok {
			return c.who
		}
		return client
	}
	tell := func(ctx context.Context, did string, of rlock.LockInfo, format string, args ...any) {
		s.tell(caller(ctx), "%s %s %s %s", did, of.Kind, of.Name, fmt.Sprintf(format, args...))
	}
	why := func(err error) string { return said(words{}, err) }
	return &rlock.Observer{
		Opened:  func(*rlock.Client) { s.tell(client, "is opened") },
		Closed:  func(*rlock.Client) { s.tell(client, "is closed") },
		Waiting: func(ctx context.Context, i rlock.WaitingInfo) { tell(ctx, "is waiting for", i.LockInfo, "") },
		Acquired: func(ctx context.Context, i rlock.AcquiredInfo) {
			tell(ctx, "has acquired", i.LockInfo, "by %s in %v, contended %t", i.AcquiredBy, i.Waited, i.Contended)
		},
		GaveUp: func(ctx context.Context, i rlock.GaveUpInfo) {
			tell(ctx, "has given up", i.LockInfo, "after %v, contended %t: %s", i.Waited, i.Contended, why(i.Err))
		},
		Released: func(ctx context.Context, i rlock.ReleasedInfo) {
			tell(ctx, "has released", i.LockInfo, "by %s after %v, passed %t: %s", i.AcquiredBy, i.Held, i.Passed, why(i.Err))
		},
		Lost: func(ctx context.Context, i rlock.LostInfo) {
			s.tell(client+"'s observer", "is told that %s has lost %s %s by %s after %v, %s: %s",
				caller(ctx), i.Kind, i.Name, i.AcquiredBy, i.Held.Round(10*time.Millisecond), i.Reason, why(i.Err))
		},
	}
}

// A logger tells the records of a client's log, but for the one of a server that does not answer:
// its time depends on the jitter of the attempts, and tests/servers/away_test.go has it.
type logger struct {
	slog.Handler
	s      *story
	client string
}

func (s *story) logger(client string) *slog.Logger { return slog.New(logger{nil, s, client}) }

func (l logger) Enabled(context.Context, slog.Level) bool { return true }

func (l logger) Handle(_ context.Context, r slog.Record) error {
	text := strings.TrimPrefix(r.Message, "rlock: ")
	if strings.HasPrefix(text, "Redis does not answer") {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.s.tell(l.client+"'s log", "%v: %s", r.Level, text)
	return nil
}
