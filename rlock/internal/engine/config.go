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
	LongHold        time.Duration // 0: never
	LongWait        time.Duration // 0: never
	RecordPlaces    bool
	NoClientChannel bool
	Logger          *slog.Logger
	Observer        *Observer // nil for none
}
