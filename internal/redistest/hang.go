package redistest

import (
	"os"
	"time"
)

// Hang is the time after which a wait is taken for endless. It measures nothing. RLOCK_HANG is another one, for a machine that
// is busy with more than the tests.
var Hang = hang(os.Getenv("RLOCK_HANG"))

func hang(text string) time.Duration {
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic("RLOCK_HANG: " + err.Error())
	}
	return d
}
