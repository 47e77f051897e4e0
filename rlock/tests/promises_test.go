package tests_test

// The promises of docs/guarantees.md, each with tests that fail on a library that breaks it;
// internal/readme holds the list against the page. Before the name of a test is its folder: calls is
// in rlock/tests, and driver in rlock/internal. "go test ./rlock/tests/stories -run Stories/losses"
// runs the stories of stories/losses.txt, and "go test ./rlock/internal/core -run Traces/queue" the
// traces of core/testdata/queue.txt; a title in quotes is the one to read. docs/verification.md has
// what runs over all of them: the explorer, random programs, torture.
//
// At most one client is granted a name at a time.
//	calls.TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked, programs.TestProgramsOverTheWholeFace,
//	explore.TestPromises
//
// A hold's context ends before Redis can grant the name to another client.
//	losses.TestALossIsReportedBeforeRedisCanGrantTheLockToAnother,
//	driver.TestTheContextOfAHoldEndsBeforeAnotherOwnerHasTheLock
//	after a pause of the process: losses.TestALostHoldIsInvalidByTheClockAlone,
//	lease.TestEverythingIsAskedWhenTheMachineSlept
//
// A lock is reentrant, and only its owner unlocks it.
//	calls.TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked,
//	stories/owners.txt "A hold nests and is released in any order, and only once"
//
// Clients of Redisson exclude ours, and ours exclude them
//	internal/redisson.TestLocksAreTheSameToBothSides,
//	internal/redisson.TestCrowdsOfThreadsAndGoroutinesLoseNoCount
//
// A lease is counted from before its command is sent.
//	losses.TestValidityIsCountedFromBeforeTheSend, lease.TestDriftIsAHundredthTwoMillisecondsAndATick,
//	core/testdata/leases.txt
//
// A timeout is not a loss.
//	losses.TestAFailedRenewalIsTriedAgainSoon, stories/losses.txt "A slow network loses no lock"
//
// The watchdog renews a lock until Unlock, and never after it.
//	losses.TestTheWatchdogKeepsALockForAnHour, losses.TestAfterUnlockNothingIsRenewedEver,
//	lease.TestNothingIsRenewedAfterARelease
//
// A cancelled Lock returns at once.
//	calls.TestEachCallReturnsWhenItsContextEnds, calls.TestACancelledLockReturnsTheContextsErrorAndHoldsNothing,
//	stories/close.txt "A waiter of another process leaves at once, and leaves nothing",
//	driver.TestEachOptionOfTheFaceEndsInEachWay
//
// Unlock completes even if its context is cancelled.
//	stories/owners.txt, stories/outages.txt
//
// A release grants the lock to the first client in the queue
//	stories/waits.txt "A message grants the lock to a waiter at once",
//	servers.TestAWaiterIsWokenByTheMessageOfTheRelease, core/testdata/queue.txt, wire.TestTheModelIsTheScripts
//
// A hold that is passed on has one successor.
//	calls.TestOneClientWinsTheRaceForAPass, stories/pass.txt
//
// Dead waiters are skipped
//	losses.TestADeadWaiterCostsOneClaim,
//	stories/waits.txt "A dead waiter keeps no reader out of a read lock",
//	tests/redisson.TestAWaiterBehindTheDeadHasTheLockWithinAClaimThoughRedissonNeverPauses
//
// A held lock costs no goroutine, timer or subscription
//	losses.TestHeldLocksCostNoGoroutine, lease.TestSchedulingAndStoppingDoNotWakeTheKeeper,
//	calls.TestClientsThatAreClosedInTheMiddleOfEverythingLeaveNothingBehind
//
// The context of a hold
//	stories/outlived.txt, stories/owners.txt, calls.TestWhatIsLockedWithAContextAfterItsHoldIsTheGoroutines
//
// Other users of the same Redis
//	servers.TestAForgedMessageGrantsNoLockAndChoosesNoToken, servers.TestAForgedMessageReleasesNoLockThatStays,
//	wire.TestTheUUIDsOfTenuresCannotBeGuessed
//
// Faults
//	stories/outages.txt, servers.TestClientsFollowAnEndpointToAnotherPrimary, servers.TestNoCallBelievesAReplica,
//	servers.TestGrantsLostInAFailover, servers.TestWaitersWithoutAConnectionForSubscriptionsPollAndLogItOnce
//
// How soon a loss is reported
//	losses.TestALossIsToldWithoutARenewal, losses.TestWhereTrackingIsRefusedTheNextRenewalFindsTheLoss,
//	stories/force.txt "The first waiter is granted the lock at once, and the holder learns of its loss"
//
// Giving way
//	driver.TestAHoldIsToldThatItIsWanted, losses.TestAHoldIsWantedWithoutARenewal,
//	driver.TestAWishEndsWithItsHold, composite.TestAHoldOfSeveralIsWantedWithEachPart,
//	losses.TestALockIsTakenOver, stories/takeover.txt
//
// Kinds of lock
//	kinds.TestReadersOfAllClientsReadAtOnceAndAWriterIsAlone, kinds.TestASemaphoreHasAsManyHoldersAsPermits,
//	groups.TestARedLockOutlivesRollingRestartsBesideWaiters, stories/groups.txt,
//	composite.TestARedLockIsReleasedByForceFromItsHolderAlone
//
// Guarded writes
//	calls.TestAGuardedWriteIsExecutedWhileItsHoldHasTheLock,
//	calls.TestAGuardedWriteOfALostHoldWritesNothingAndTellsTheLoss,
//	calls.TestAReleaseWithAScriptIsOneStep, driver.TestALateGuardedWriteFindsAnotherTenure
//
// Fencing tokens
//	kinds.TestATokenIsCountedForEachGrantInRedissonsKey, kinds.TestTokensAreExactBeyondWhatLuaCanCount,
//	stories/fenced.txt
