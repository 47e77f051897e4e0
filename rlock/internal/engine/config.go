package engine

import (
	"log/slog"
	"time"
)

// A Config says how a client behaves. It is complete: package rlock fills in the defaults,
// and says there what each field means.
type Config struct {
	Lease           time.Duration
	HandoffLimit    int // 0: no hand-offs while others wait
	HandoffTime     time.Duration
	Linger          time.Duration // 0: no lock lingers
	LongHold        time.Duration // 0: never
	LongWait        time.Duration // 0: never
	RecordPlaces    bool
	RedissonPolls   bool // guests contend for every lock: none lingers
	NoClientChannel bool
	NoAnswers       bool
	Logger          *slog.Logger
	Observer        *Observer // nil for none
}
