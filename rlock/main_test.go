package rlock_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/redistest"
)

// long has everything measured, and not only what must hold.
var long = flag.Bool("long", false, "run the tests that have a longer form in that form")

func TestMain(m *testing.M) { redistest.Main(m, aFailedHandshake) }

// aFailedHandshake is what rueidis 1.0.79 leaves behind once in a while when the
// server resets the connection during its handshake.
var aFailedHandshake = goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*pipe)._backgroundWrite")
