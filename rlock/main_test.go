package rlock_test

import (
	"flag"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

// long selects the long form of tests, which measures more.
var long = flag.Bool("long", false, "run the tests that have a longer form in that form")

// atOnce is the number of parallel tests, unless the flag is given: more than there may be
// processors, since tests mostly wait for a server to start, a failure to be noticed or a
// lease to end.
const atOnce = "6"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil { // before the command line is parsed
		panic(err)
	}
	flag.Parse()
	driver.CheckRules(flag.Lookup("test.bench").Value.String() == "") // they cost more than an uncontended pair
	debug.SetGCPercent(400)                                           // much of the work in virtual time is garbage of miniredis and of its scripts
	redistest.Main(m, aFailedHandshake)
}

// aFailedHandshake is the goroutine that rueidis 1.0.79 sometimes leaves behind when the
// server resets the connection during its handshake.
var aFailedHandshake = goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*pipe)._backgroundWrite")
