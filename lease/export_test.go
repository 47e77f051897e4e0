package lease

// NewKeeperWithClock is NewKeeper with a clock that a test controls.
var NewKeeperWithClock = newKeeper
