package wire

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// This file finds out, for the log, that the server is away, and that it is back without its data.

// OnOutage sets two functions. fails is called with the error of a command without an answer, and
// the time for which the server has been away. returns is called with this time when the server
// answers again. They must not wait. They are not called in a Cluster, where one of many nodes may
// be away.
func (r *Redis) OnOutage(fails func(err error, lasted time.Duration), returns func(lasted time.Duration)) {
	r.outage.fails.Store(&fails)
	r.outage.returns.Store(&returns)
}

// outages has the functions of OnOutage.
type outages struct {
	fails   atomic.Pointer[func(error, time.Duration)]
	returns atomic.Pointer[func(time.Duration)]
}

// noteNoAnswer notes that a command has no answer. The end of its caller's context counts only if
// the server is silent.
func (r *Redis) noteNoAnswer(err error) {
	silent := r.Limits(0).silent()
	if (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) && silent < longSilence {
		return
	}
	r.tellAway(err, silent)
}

func (r *Redis) tellAway(err error, silent time.Duration) {
	fails := r.outage.fails.Load()
	if fails == nil || r.InCluster() || r.Stopped() || errors.Is(err, rueidis.ErrClosing) {
		return
	}
	now := time.Since(began)
	r.conns.away.CompareAndSwap(0, int64(cmp.Or(now-silent, 1)))
	(*fails)(err, now-time.Duration(r.conns.away.Load()))
}

// noteAnswered notes that the server answers after a connection has ended or commands have failed.
func (r *Redis) noteAnswered() {
	away := r.conns.away.Swap(0)
	if returns := r.outage.returns.Load(); away != 0 && returns != nil && !r.InCluster() {
		(*returns)(time.Since(began) - time.Duration(away))
	}
}

// longSilence is the time without an answer after which the server counts as away.
const longSilence = time.Second

// A silence finds out that a server has commands in flight and answers none. Its timer runs once in
// longSilence while there are commands.
type silence struct {
	redis   *Redis
	limits  *Limits
	watches atomic.Bool
}

// newWatchedLimits returns limits that are watched for silence.
func newWatchedLimits(r *Redis) *Limits {
	l := NewLimits()
	s := &silence{redis: r, limits: l}
	l.Asks.silence, l.Releases.silence = s, s
	return l
}

// silent returns the time for which the node has answered no command.
func (l *Limits) silent() time.Duration { return max(l.Asks.Silent(), l.Releases.Silent()) }

// checkLater checks for silence after longSilence.
func (s *silence) checkLater() {
	if s != nil && !s.watches.Load() && !s.watches.Swap(true) {
		time.AfterFunc(longSilence, s.check)
	}
}

func (s *silence) check() {
	if silent := s.limits.silent(); silent >= longSilence {
		s.redis.tellAway(ErrNoAnswer, silent)
	}
	s.watches.Store(false)
	if s.limits.Asks.Count()+s.limits.Releases.Count() > 0 && !s.redis.Stopped() {
		s.checkLater()
	}
}

// EmptySince returns the run id of the server if the server says that it was started in the last
// while, give or take a second, and has loaded no data; else "". It waits for the server.
func (r *Redis) EmptySince(while time.Duration) (id string) {
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	server, _ := r.Client.Do(ctx, r.Client.B().Info().Section("server").Build()).ToString()
	up, known := infoNumber(server, "uptime_in_seconds")
	if !known || time.Duration(up)*time.Second > while+time.Second {
		return ""
	}
	disk, _ := r.Client.Do(ctx, r.Client.B().Info().Section("persistence").Build()).ToString()
	keys, known := infoNumber(disk, "rdb_last_load_keys_loaded")
	logs, _ := infoNumber(disk, "aof_enabled")
	if !known || keys > 0 || logs > 0 {
		return ""
	}
	return infoField(server, "run_id")
}

// infoNumber returns the number of a field in a reply to INFO.
func infoNumber(info, field string) (n int64, known bool) {
	n, err := strconv.ParseInt(infoField(info, field), 10, 64)
	return n, err == nil
}
