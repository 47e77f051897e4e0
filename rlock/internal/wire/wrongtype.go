package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

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
