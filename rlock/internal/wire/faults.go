package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/secret"
)

// The errors of a server, a config or a name that cannot work. Package rlock exports them,
// and says there what each means for a caller.
var (
	ErrClosed        = errors.New("client is closed")
	ErrInvalidConfig = errors.New("invalid config")
	ErrInvalidName   = errors.New("invalid lock name")
	ErrNoPermission  = errors.New("the Redis user lacks a permission")
	ErrNotReplicated = errors.New("too few replicas have the grant")
	ErrUnsupported   = errors.New("server lacks a command")
	ErrWrongType     = errors.New("the key is no lock of this kind")
)

// A Fault says what an error from Redis means for the command that met it.
type Fault int

const (
	// Unknown: the command may have been executed, or may still be. The connection
	// ended, or the time did, before the reply came.
	Unknown Fault = iota
	// NotNow: the command was certainly not executed, and waiting may cure it: a
	// failover, a server that is loading, full or unreachable.
	NotNow
	// Never: the command was certainly not executed, and waiting cures nothing.
	Never
)

// ErrCrowded is the fault of a command that found no slot among those in flight
// to its node.
var ErrCrowded = errors.New("too many commands in flight to the node, which does not answer")

// ErrNoAnswer is the fault of a command without an answer in the time that it had. It hides
// context.DeadlineExceeded: the deadline is one of the client, and a caller would take it for
// its own, which [TimeUp] distinguishes from it.
var ErrNoAnswer = errors.New("no answer from Redis in time")

// curable are the error codes of replies that say "not executed, try again".
// rueidis retries some of them, and only for some commands (see its cluster.go), so the
// retry is ours.
var curable = []string{
	"LOADING", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "MASTERDOWN", "BUSY",
	"NOREPLICAS", "OOM", "MISCONF", "MOVED", "ASK", "NOSCRIPT",
	"max number of clients",
}

// Diagnose sorts err, and wraps those that a caller can act on in their sentinel.
// Replies are matched by their code, from which rueidis takes away a leading
// "ERR ". Up to Redis 6 an error inside a script has its code in the middle of the
// message ("ERR Error running script ...", "@user_script: 14: ..."), so it is looked
// for there as well.
func Diagnose(err error) (Fault, error) {
	if err == nil {
		return Never, nil
	}
	if a := (*absent)(nil); errors.As(err, &a) {
		return a.fault, a.err
	}
	message, ok := reply(err)
	if !ok {
		return diagnoseSilence(err)
	}
	has := func(code string) bool {
		return strings.HasPrefix(message, code) ||
			strings.Contains(message, code) && (strings.HasPrefix(message, "Error ") || strings.HasPrefix(message, "@user_script"))
	}
	for _, code := range curable {
		if has(code) {
			return NotNow, err
		}
	}
	if refused := ofServer.refused(message); refused != nil {
		return Never, refused
	}
	switch {
	case has("WRONGTYPE"), has("value is not an integer"): // of a counter
		return Never, wrongType{detail(message), err}
	case has("NOPERM"), has("The user executing the script"), has("ACL failure in script"):
		return Never, fmt.Errorf("%w: %s", ErrNoPermission, secret.HideUser(message))
	case strings.Contains(message, "undeclared key"):
		return Never, fmt.Errorf("%w: it lets a script touch declared keys only, and a read-write lock needs those of other readers: %w", ErrUnsupported, err)
	case has("unknown command"), has("unknown subcommand"), has("Unknown subcommand"), has("Unknown PUBSUB subcommand"), has("Unknown Redis command"), has("Unknown command"):
		return Never, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return Never, err
}

// NotALock is the error for a key whose hash or sorted set has a member that is no owner, so
// that it holds something else than a lock.
func NotALock(member string) error {
	return wrongType{found: fmt.Sprintf("%q in it is no owner", member)}
}

// Explain is [Diagnose] for callers that need no fault.
func Explain(err error) error {
	_, err = Diagnose(err)
	return err
}

// ExplainTo is [Explain] for the error of a command that ends with its caller's context: once that
// is over, and no answer has come, the error is the context's own.
func ExplainTo(caller context.Context, err error) error {
	if caller.Err() != nil && !Answered(err) {
		return Over(caller)
	}
	return Explain(err)
}

// diagnoseSilence is Diagnose for an error that is not Redis' answer.
func diagnoseSilence(err error) (Fault, error) {
	op := (*net.OpError)(nil)
	switch {
	case errors.Is(err, rueidis.ErrClosing), errors.Is(err, rueidis.ErrNoSlot), errors.Is(err, ErrCrowded), errors.Is(err, ErrNotReplicated):
		return NotNow, err
	case errors.Is(err, ErrWrongType): // see NotALock
		return Never, err
	case errors.As(err, &op) && op.Op == "dial":
		return NotNow, err
	case errors.Is(err, context.DeadlineExceeded):
		return Unknown, ErrNoAnswer
	}
	return Unknown, err
}

// A rejection is the error of a connection that the server has ended with a reply to
// nothing, as it does when it has too many clients.
type rejection struct {
	reply string // without "-" and "ERR "
	cause error
}

func (r *rejection) Error() string { return fmt.Sprintf("%s (%v)", r.reply, r.cause) }
func (r *rejection) Unwrap() error { return r.cause }

// reply returns what the server said, if err is its answer.
func reply(err error) (message string, ok bool) {
	if r := (*rejection)(nil); errors.As(err, &r) {
		return r.reply, true
	}
	if r := (*rueidis.RedisError)(nil); errors.As(err, &r) && r != rueidis.Nil {
		return r.Error(), true
	}
	return "", false
}

// Begun reports whether err, if it is a server's answer, is about a command inside of a
// script: the commands before it in the script have been executed.
func Begun(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && strings.Contains(reply.Error(), "@user_script") || Released(err)
}

// Released reports whether err is that of a release which has been executed, and whose
// message to others was refused (plain.lua, queue.lua, grant.lua).
func Released(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasSuffix(reply.Error(), "(released)")
}

// Answered reports whether err, nil included, is a server's answer.
func Answered(err error) bool {
	if err == nil {
		return true
	}
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

// A wrongType is the [ErrWrongType] of a key that is no lock, or one of another kind. What Redis said is for Unwrap: it
// is about scripts.
type wrongType struct {
	found string // what the key is, "" if that is not known
	cause error  // Redis' reply, nil for none
}

func (e wrongType) Error() string {
	if e.found == "" {
		return ErrWrongType.Error() + ": choose another name"
	}
	return ErrWrongType.Error() + ": " + e.found + ": choose another name"
}

func (e wrongType) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrWrongType}
	}
	return []error{ErrWrongType, e.cause}
}

// ofAnyCommand is what Redis says of any key of another type.
const ofAnyCommand = "Operation against a key holding the wrong kind of value"

// detail returns what one of the scripts has added to Redis' message: which key it is about, or which member is no owner.
func detail(message string) string {
	_, said, ok := strings.Cut(message, "WRONGTYPE ")
	if !ok {
		said = message
	}
	for _, end := range []string{" script: ", "\n", " stack traceback"} { // added by Redis, or by the embedded server
		said, _, _ = strings.Cut(said, end)
	}
	return strings.TrimSpace(strings.TrimPrefix(said, ofAnyCommand))
}

// OfOtherKind returns the [ErrWrongType] of a call for a lock with what the key is, if Redis says that. It asks Redis, for a
// key about which nothing else is known.
func (r *Redis) OfOtherKind(ctx context.Context, k *Keys, err error) error {
	if told := (wrongType{}); errors.As(err, &told) && told.found != "" {
		return err
	}
	replies, failed := r.Survey(ctx, k.Slot, r.Arbitrary(k.Key, "TYPE"), r.Arbitrary(k.Key, "ZRANGE", "0", "1"),
		r.Arbitrary(k.Key, "HSCAN", "0", "COUNT", "1"))
	if failed != nil {
		return err
	}
	return wrongType{kindOf(replies), err}
}

// kindOf says what the key is about whose type, first members and first fields Redis was asked.
func kindOf(replies []rueidis.RedisResult) string {
	title, _ := replies[0].ToString()
	switch title {
	case "zset":
		if members, err := replies[1].AsStrSlice(); err == nil && slices.ContainsFunc(members, IsOwner) {
			return "it is a semaphore of rlock: one name, one kind"
		}
	case "hash":
		if page, err := replies[2].AsScanEntry(); err == nil && len(page.Elements) > 0 && (IsOwner(page.Elements[0]) || page.Elements[0] == "mode") {
			return "it is a lock, and no semaphore: one name, one kind"
		}
	case "", "none":
		return ""
	}
	return fmt.Sprintf("it has other data, of the type %s", title)
}
