package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/secret"
)

// IsPermanent reports whether err wraps a sentinel about a server, a user or a name that waiting
// does not cure. For an error of rueidis [Diagnose] says so.
func IsPermanent(err error) bool {
	return errors.Is(err, ErrInvalidName) || errors.Is(err, ErrNoPermission) || errors.Is(err, ErrUnsupported) || errors.Is(err, ErrWrongType)
}

// A Diagnosis is what an error means for its command.
type Diagnosis int

const (
	// Unknown: the command may have been executed, or may still be. There was no reply before the
	// connection, or the time, ended.
	Unknown Diagnosis = iota
	// NotNow: the command was certainly not executed, and waiting may cure it: a failover, a server
	// that is loading, full or unreachable.
	NotNow
	// Never: the command was certainly not executed, and waiting cures nothing.
	Never
)

// ErrCrowded is the error of a command that found no slot of its node's limits.
var ErrCrowded = errors.New("too many commands in flight to the node, which does not answer")

// ErrNoAnswer is the error of a command without an answer in time. It hides
// context.DeadlineExceeded: the deadline was the client's, and a caller would take it for the
// deadline of its own context.
var ErrNoAnswer = errors.New("no answer from Redis in time")

// curable are the codes of replies that mean "not executed, try again". rueidis tries again after
// some of them, and only for some commands.
var curable = []string{
	"LOADING", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "MASTERDOWN", "BUSY",
	"NOREPLICAS", "OOM", "MISCONF", "MOVED", "ASK", "NOSCRIPT",
	"max number of clients",
}

// Diagnose returns the diagnosis of err. It also returns err, wrapped in a sentinel if a caller can
// act on it and err is not wrapped yet. Replies are matched by their code; rueidis removes a
// leading "ERR ".
func Diagnose(err error) (Diagnosis, error) {
	if err == nil || IsPermanent(err) {
		return Never, err
	}
	if a := (*absent)(nil); errors.As(err, &a) {
		return a.diagnosis, a.err
	}
	message, ok := replyText(err)
	if !ok {
		return diagnoseSilence(err)
	}
	has := func(code string) bool { return hasCode(message, code) }
	for _, code := range curable {
		if has(code) {
			return NotNow, err
		}
	}
	if refused := ofServer.refused(message); refused != nil {
		return Never, refused
	}
	switch {
	case has("WRONGTYPE"), has("value is not an integer"), // an integer that is expected is in a counter
		has("increment or decrement would overflow") && strings.Contains(message, "token counter"): // the type of the counter is right otherwise
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

// hasCode reports whether the message of an error reply has the code. Up to Redis 6 the code of an
// error inside a script stands in the middle of the message.
func hasCode(message, code string) bool {
	return strings.HasPrefix(message, code) ||
		strings.Contains(message, code) && (strings.HasPrefix(message, "Error ") || strings.HasPrefix(message, "@user_script"))
}

// NotALock returns the error of a key that is no lock: its hash or sorted set has a member that
// does not name an owner.
func NotALock(member string) error {
	return wrongType{found: fmt.Sprintf("%q in it is no owner", member)}
}

// Explain is [Diagnose] for callers that need the error alone.
func Explain(err error) error {
	_, err = Diagnose(err)
	return err
}

// Lack returns err wrapped in [ErrNoPermission] or [ErrUnsupported] if the user lacks a right or
// the server a command, else nil. Only the author of a user's script knows what its errors mean.
func Lack(err error) error {
	if err = Explain(err); errors.Is(err, ErrNoPermission) || errors.Is(err, ErrUnsupported) {
		return err
	}
	return nil
}

// ExplainTo is [Explain] for a command that ends with its caller's context. If the context has
// ended and the server has not answered, ExplainTo returns the error of the context.
func ExplainTo(caller context.Context, err error) error {
	if caller.Err() != nil && !Answered(err) {
		return Over(caller)
	}
	return Explain(err)
}

// diagnoseSilence is Diagnose for an error that is not a reply of Redis.
func diagnoseSilence(err error) (Diagnosis, error) {
	op := (*net.OpError)(nil)
	switch {
	case errors.Is(err, rueidis.ErrClosing), errors.Is(err, rueidis.ErrNoSlot), errors.Is(err, ErrCrowded), errors.Is(err, ErrNotReplicated):
		return NotNow, err
	case errors.As(err, &op) && op.Op == "dial":
		return NotNow, err
	case errors.Is(err, context.DeadlineExceeded):
		return Unknown, ErrNoAnswer
	}
	return Unknown, err
}

// A rejection is the error of a connection that the server ended with an unasked reply, such as
// "max number of clients reached".
type rejection struct {
	reply string // the text, without "-" and "ERR "
	cause error
}

func (r *rejection) Error() string { return fmt.Sprintf("%s (%v)", r.reply, r.cause) }
func (r *rejection) Unwrap() error { return r.cause }

var lineOfScript = regexp.MustCompile(`^:\d+: `)

// replyText returns the message of err if it is a reply of the server.
func replyText(err error) (message string, ok bool) {
	if r := (*rejection)(nil); errors.As(err, &r) {
		return r.reply, true
	}
	if r := (*rueidis.RedisError)(nil); errors.As(err, &r) && r != rueidis.Nil {
		// Redis puts a second "ERR " before an error that a script has caught and raised again. The
		// embedded server puts the line of the script there.
		return lineOfScript.ReplaceAllString(strings.TrimPrefix(r.Error(), "ERR "), ""), true
	}
	return "", false
}

// hasBegun reports whether err is a reply about a command inside a script. The commands before it
// in the script were executed.
func hasBegun(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && strings.Contains(reply.Error(), "@user_script") || Released(err)
}

// Released reports whether err is the reply to a release that was executed, and only a message to
// another client was refused (plain.lua, queue.lua, grant.lua).
func Released(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasSuffix(reply.Error(), "(released)")
}

// Answered reports whether the server replied: err is nil or an error reply.
func Answered(err error) bool {
	if err == nil {
		return true
	}
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

// A wrongType is the [ErrWrongType] of a key that is no lock, or a lock of another kind. Its
// message omits Redis' own message, which is about scripts.
type wrongType struct {
	found string // a description of the key; "" if it is not known
	cause error  // Redis' reply, or nil
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

// ofAnyCommand is Redis' message about a key of another type.
const ofAnyCommand = "Operation against a key holding the wrong kind of value"

// detail returns the description that a script has added to Redis' message: the key's name, or the
// member that names no owner.
func detail(message string) string {
	_, said, ok := strings.Cut(message, "WRONGTYPE ")
	if !ok {
		said = message
	}
	for _, end := range []string{" script: ", "\n", " stack traceback"} { // text that Redis, or the embedded server, appends
		said, _, _ = strings.Cut(said, end)
	}
	said = strings.TrimSpace(strings.TrimPrefix(said, ofAnyCommand))
	if strings.HasPrefix(said, "(") { // only the name of another key of the lock
		said = "other data are in one of its keys " + said
	}
	return said
}

// OfOtherKind returns err, an [ErrWrongType], with a description of the key. It asks Redis for the
// description unless err has one.
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

// kindOf describes a key by the replies to TYPE, ZRANGE and HSCAN.
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
