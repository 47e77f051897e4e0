package programs

import (
	"errors"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/once"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
)

// A setting is a field of a Config or of Options that a program may set.
type setting[C any] struct {
	name string
	in   int // it is drawn once in so many times
	draw func(g *generator) Choice
	set  func(c C, to Choice)
}

// number returns a setting that has one of these numbers.
func number[C any](name string, in int, set func(C, int), of ...int) setting[C] {
	return setting[C]{name, in, func(g *generator) Choice { return Choice{Name: name, N: some(g, of...)} }, func(c C, to Choice) { set(c, to.N) }}
}

// duration returns a setting with one of these times.
func duration[C any](name string, in int, set func(C, time.Duration), of ...time.Duration) setting[C] {
	return setting[C]{name, in, func(g *generator) Choice { return Choice{Name: name, D: some(g, of...)} }, func(c C, to Choice) { set(c, to.D) }}
}

// flag returns a setting that is true.
func flag[C any](name string, in int, set func(C)) setting[C] {
	return setting[C]{name, in, func(*generator) Choice { return Choice{Name: name, N: 1} }, func(c C, _ Choice) { set(c) }}
}

const ms = time.Millisecond

// settings are the settings of a client. The program has the others: Redis, Prefix, Lease, Logger
// and Observer.
var settings = []setting[*rlock.Config]{
	number("PipelineMultiplex", 2, func(c *rlock.Config, n int) { c.Redis.PipelineMultiplex = n }, -1, 1, 2),
	flag("Lazy", 5, func(c *rlock.Config) { c.Lazy = true }),
	duration("LongestLease", 8, func(c *rlock.Config, d time.Duration) { c.LongestLease = d }, 8*time.Second, 20*time.Second),
	number("HandoffLimit", 2, func(c *rlock.Config, n int) { c.Advanced.HandoffLimit = n }, -1, 1, 1000),
	duration("HandoffTime", 4, func(c *rlock.Config, d time.Duration) { c.Advanced.HandoffTime = d }, ms, 100*ms),
	number("SyncReplicas", 50, func(c *rlock.Config, n int) { c.SyncReplicas = n }, 1),
	number("RedissonPolls", 6, func(c *rlock.Config, n int) { c.Advanced.RedissonPolls = rlock.RedissonPolls(n) },
		int(rlock.RedissonPollsAuto), int(rlock.RedissonPollsNever), int(rlock.RedissonPollsAlways)),
	flag("NoClientName", 8, func(c *rlock.Config) { c.Advanced.NoClientName = true }),
	flag("NoClientChannel", 6, func(c *rlock.Config) { c.Advanced.NoClientChannel = true }),
	number("TrackedKeys", 3, func(c *rlock.Config, n int) { c.Advanced.TrackedKeys = n }, -1, 2),
	duration("LongHold", 6, func(c *rlock.Config, d time.Duration) { c.LongHold = d }, 200*ms, -1),
	duration("LongWait", 6, func(c *rlock.Config, d time.Duration) { c.LongWait = d }, 200*ms, -1),
	flag("ReleaseDropped", 8, func(c *rlock.Config) { c.ReleaseDropped = true }),
	flag("RecordSites", 8, func(c *rlock.Config) { c.RecordSites = true }),
	flag("LogSteps", 8, func(c *rlock.Config) { c.Advanced.LogSteps = true }),
	{"PubSub", 0, nil, func(c *rlock.Config, to Choice) { c.Advanced.PubSub = rlock.PubSubPlain }},
	{"Client", 0, nil, func(*rlock.Config, Choice) {}}, // the runner makes the rueidis client
}

// A groupConfig has the options of the groups and guards of all clients: all processes should have
// the same.
type groupConfig struct {
	once       once.Options
	idempotent idempotent.Options
}

var groupSettings = []setting[*groupConfig]{
	duration("once.Keep", 2, func(c *groupConfig, d time.Duration) { c.once.Keep = d }, 20*ms, 200*ms, 3*time.Second),
	duration("once.KeepErrors", 3, func(c *groupConfig, d time.Duration) { c.once.KeepErrors = d }, 20*ms, time.Second),
	number("once.Inline", 3, func(c *groupConfig, n int) { c.once.Inline = n }, -1, 8),
	number("once.Most", 6, func(c *groupConfig, n int) { c.once.Most = n }, 8, 100),
	flag("once.Finish", 2, func(c *groupConfig) { c.once.Finish = true }),
	flag("once.Tokens", 3, func(c *groupConfig) { c.once.Tokens = true }),
	duration("idempotent.Keep", 2, func(c *groupConfig, d time.Duration) { c.idempotent.Keep = d }, time.Hour),
	duration("idempotent.Wait", 2, func(c *groupConfig, d time.Duration) { c.idempotent.Wait = d }, 500*ms, 3*time.Second),
	flag("idempotent.Again", 3, func(c *groupConfig) { c.idempotent.Again = true }),
	flag("idempotent.Optional", 2, func(c *groupConfig) { c.idempotent.Optional = true }),
	{"idempotent.Methods", 3, func(*generator) Choice { return Choice{Name: "idempotent.Methods", S: "POST"} },
		func(c *groupConfig, to Choice) { c.idempotent.Methods = []string{to.S} }},
	flag("idempotent.Result", 3, func(c *groupConfig) { c.idempotent.Result = func(status int) bool { return status < 300 } }),
	number("idempotent.MostBody", 6, func(c *groupConfig, n int) { c.idempotent.MostBody = int64(n) }, 4),
	number("idempotent.MostResponse", 6, func(c *groupConfig, n int) { c.idempotent.MostResponse = n }, 4),
	{"idempotent.Prefix", 3, func(*generator) Choice { return Choice{Name: "idempotent.Prefix", S: "idem:"} },
		func(c *groupConfig, to Choice) { c.idempotent.Prefix = to.S }},
}

// apply makes the settings.
func apply[C any](all []setting[C], c C, choices []Choice) {
	for _, choice := range choices {
		for _, s := range all {
			if s.name == choice.Name {
				s.set(c, choice)
			}
		}
	}
}

// config returns the Config of a client, but for its connections and its Observer.
func (w *World) config(c Client) rlock.Config {
	config := rlock.Config{
		Redis:  rueidis.ClientOption{},
		Lease:  w.Lease,
		Prefix: w.Prefix,
		Logger: slog.New(slog.DiscardHandler),
	}
	if !w.Outside { // a test of many programs has no use for one more connection
		config.Advanced.TrackedKeys = -1
	}
	apply(settings, &config, c.Settings)
	return config
}

// shared reports whether the client shares a rueidis client.
func (c Client) shared() bool { return find(c.Settings, "Client").Name != "" }

// replicated reports whether grants of the client wait for replicas.
func (c Client) replicated() bool { return find(c.Settings, "SyncReplicas").N > 0 }

// An option is an AcquireOption.
type option struct {
	name string
	in   int // it is drawn once in so many times
	fits func(l Lock) bool
	draw func(g *generator, l Lock) Choice
	make func(k *call, to Choice) rlock.AcquireOption
}

func single(l Lock) bool { return !l.group() }

func exclusive(l Lock) bool { return l.Kind == "plain" || l.Kind == "fenced" || l.Kind == "fair" }

func every(Lock) bool { return true }

var options = []option{
	{"WithWait", 2, every,
		func(g *generator, _ Lock) Choice {
			return Choice{Name: "WithWait", D: some(g, 0, 5*ms, 200*ms, 2*time.Second, 6*time.Second)}
		},
		func(_ *call, to Choice) rlock.AcquireOption { return rlock.WithWait(to.D) }},
	{"WithLease", 5, every,
		func(g *generator, _ Lock) Choice {
			if g.in(20) {
				return Choice{Name: "WithLease", D: ms} // too short
			}
			return Choice{Name: "WithLease", D: 150*ms + g.ms(3000)}
		},
		func(_ *call, to Choice) rlock.AcquireOption { return rlock.WithLease(to.D) }},
	{"WithNote", 4, every,
		func(g *generator, _ Lock) Choice {
			return Choice{Name: "WithNote", S: some(g, "", "job 7", "*3:write #~ €")}
		},
		func(_ *call, to Choice) rlock.AcquireOption { return rlock.WithNote(to.S) }},
	{"WithMaxHold", 5, single,
		func(g *generator, _ Lock) Choice { return Choice{Name: "WithMaxHold", D: 50*ms + g.ms(3000)} },
		func(_ *call, to Choice) rlock.AcquireOption { return rlock.WithMaxHold(to.D) }},
	{"WithMinHold", 5, single,
		func(g *generator, _ Lock) Choice { return Choice{Name: "WithMinHold", D: ms + g.ms(700)} },
		func(_ *call, to Choice) rlock.AcquireOption { return rlock.WithMinHold(to.D) }},
	{"WithMaxWaiters", 5, single,
		func(g *generator, _ Lock) Choice { return Choice{Name: "WithMaxWaiters", N: g.IntN(6)} },
		func(_ *call, to Choice) rlock.AcquireOption { return rlock.WithMaxWaiters(to.N) }},
	{"WithProgress", 5, single,
		func(g *generator, _ Lock) Choice {
			return Choice{Name: "WithProgress", S: some(g, "returns", "returns", "blocks", "panics", "exits")}
		},
		func(k *call, to Choice) rlock.AcquireOption { return rlock.WithProgress(k.progress(to.S)) }},
	{"WithLine", 4, single,
		func(g *generator, _ Lock) Choice { return Choice{Name: "WithLine", S: some(g, "a", "b,*@:c")} },
		func(_ *call, to Choice) rlock.AcquireOption { return rlock.WithLine(to.S) }},
	{"WithTakeover", 8, func(l Lock) bool { return exclusive(l) || l.Kind == "write" || l.Kind == "semaphore" },
		func(g *generator, _ Lock) Choice {
			return Choice{Name: "WithTakeover", D: some(g, 0, 20*ms, 200*ms, time.Second)}
		},
		func(_ *call, to Choice) rlock.AcquireOption { return rlock.WithTakeover(to.D) }},
	{"WithPermits", 3, func(l Lock) bool { return l.Kind == "semaphore" },
		func(g *generator, l Lock) Choice {
			if g.in(16) {
				return Choice{Name: "WithPermits", N: some(g, 0, Permits+1)}
			}
			return Choice{Name: "WithPermits", N: 1 + g.IntN(Permits)}
		},
		func(_ *call, to Choice) rlock.AcquireOption { return rlock.WithPermits(to.N) }},
}

// refused returns the error that a call with these options must return, since they do not go
// together or do not fit the lock; nil if they may.
func refused(l Lock, with []Choice) (errs []error) {
	for _, c := range with {
		switch c.Name {
		case "WithLease", "WithWait", "WithNote", "WithPermits":
		default:
			if l.group() {
				errs = append(errs, errors.ErrUnsupported)
			}
		}
		if c.Name == "WithLine" && l.Kind != "fair" && l.Kind != "semaphore" {
			errs = append(errs, errors.ErrUnsupported)
		}
		if c.Name == "WithTakeover" && l.Kind == "read" {
			errs = append(errs, errors.ErrUnsupported)
		}
		if c.Name == "WithLease" && c.D > 0 && c.D < 25*ms {
			errs = append(errs, rlock.ErrInvalidLease)
		}
		if c.Name == "WithPermits" && (c.N < 1 && !l.group() || l.Kind == "semaphore" && c.N > Permits) {
			errs = append(errs, rlock.ErrPermits)
		}
		if c.Name == "WithPermits" && (c.N > 1 || c.N < 1 && l.group()) && l.Kind != "semaphore" {
			errs = append(errs, errors.ErrUnsupported)
		}
	}
	most := find(with, "WithMaxHold").D
	if most > 0 && (find(with, "WithLease").D > 0 || find(with, "WithMinHold").D > most) {
		errs = append(errs, rlock.ErrInvalidLease)
	}
	return errs
}

// refusalNames has the names of the errors of refused.
var refusalNames = map[error]string{
	rlock.ErrInvalidLease: "rlock.ErrInvalidLease",
	rlock.ErrPermits:      "rlock.ErrPermits",
	errors.ErrUnsupported: "errors.ErrUnsupported",
}
