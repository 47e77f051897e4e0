package rlock_test

import (
	"flag"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/redistest"
)

// long has everything measured, and not only what must hold.
var long = flag.Bool("long", false, "run the tests that have a longer form in that form")

// atOnce is how many tests run at once of those that say t.Parallel, unless the flag
// says otherwise: more than there may be processors, since most of the time they
// wait: for a server to start, a failure to be noticed, a lease to end.
const atOnce = "6"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil { // the command line comes later
		panic(err)
	}
	debug.SetGCPercent(400) // what miniredis makes for each script, and leaves, is most of the work in virtual time
	redistest.Main(m, aFailedHandshake)
}

// aFailedHandshake is what rueidis 1.0.79 leaves behind once in a while when the
// server resets the connection during its handshake.
var aFailedHandshake = goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*pipe)._backgroundWrite")
