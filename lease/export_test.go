package lease

// NewKeeperWithClock is NewKeeper with a clock that a test can make lie.
var NewKeeperWithClock = newKeeper
