package tests_test

// The promises of docs/guarantees.md, each with tests that fail on a library that breaks it;
// internal/readme holds the list against the page. A test runs by its name in ./rlock/...,
// "go test ./rlock/tests/stories -run Stories/losses" the stories of stories/losses.txt, and
// "go test ./rlock/internal/core -run Traces/queue" the traces of core/testdata/queue.txt.
// docs/verification.md has what runs over all of them: the explorer, random programs, torture.
//
// At most one client is granted a name at a time.
//
//	TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked, TestProgramsOverTheWholeFace, explore.TestPromises
//
// A hold's context ends before Redis can grant the name to another client.
//
//	TestALossIsReportedBeforeRedisCanGrantTheLockToAnother,
//	driver.TestTheContextOfAHoldEndsBeforeAnotherOwnerHasTheLock
//
// A lease is counted from before its command is sent.
//
//	TestValidityIsCountedFromBeforeTheSend, lease.TestDriftIsAHundredthTwoMillisecondsAndATick, core/testdata/leases.txt
//
// A timeout is not a loss.
//
//	TestAFailedRenewalIsTriedAgainSoon, stories/losses.txt
//
// Nothing is renewed after Unlock returns.
//
//	TestAfterUnlockNothingIsRenewedEver, lease.TestNothingIsRenewedAfterARelease
//
// A cancelled Lock returns at once.
//
//	TestEachCallReturnsWhenItsContextEnds, TestACancelledLockReturnsTheContextsErrorAndHoldsNothing,
//	driver.TestAnAcquireWhoseCallerLeftInFlightIsUndoneOnce
//
// Unlock completes even if its context is cancelled.
//
//	stories/owners.txt, stories/outages.txt
//
// A release grants the lock to the first client in the queue
//
//	core/testdata/queue.txt, stories/waits.txt, wire.TestTheModelIsTheScripts
//
// A hold that is passed on has one successor.
//
//	TestOneClientWinsTheRaceForAPass, stories/pass.txt
//
// Dead waiters are skipped
//
//	TestADeadWaiterCostsOneClaim, stories/waits.txt,
//	TestAWaiterBehindTheDeadHasTheLockWithinAClaimThoughRedissonNeverPauses
//
// A held lock costs no goroutine, timer or subscription
//
//	TestHeldLocksCostNoGoroutine, lease.TestSchedulingAndStoppingDoNotWakeTheKeeper,
//	TestClientsThatAreClosedInTheMiddleOfEverythingLeaveNothingBehind
//
// The context of a hold
//
//	stories/outlived.txt, stories/owners.txt, TestWhatIsLockedWithAContextAfterItsHoldIsTheGoroutines
//
// Other users of the same Redis
//
//	TestAForgedMessageGrantsNoLockAndChoosesNoToken, TestAForgedMessageReleasesNoLockThatStays,
//	wire.TestTheUUIDsOfTenuresCannotBeGuessed
//
// Faults
//
//	stories/outages.txt, TestClientsFollowAnEndpointToAnotherPrimary, TestNoCallBelievesAReplica,
//	TestWaitersWithoutAConnectionForSubscriptionsPollAndLogItOnce
//
// How soon a loss is reported
//
//	TestALossIsToldWithoutARenewal,
//	TestForceUnlockFreesTheLockAtAnyDepthAndTheHolderLearnsIt, TestWhereTrackingIsRefusedTheNextRenewalFindsTheLoss
//
// Giving way
//
//	TestAHoldIsToldThatItIsWanted, TestAHoldIsWantedWithoutARenewal, TestAWishEndsWithItsHold,
//	TestAHoldOfSeveralIsWantedWithEachPart, TestALockIsTakenOver, stories/takeover.txt
//
// Kinds of lock
//
//	TestReadersOfAllClientsReadAtOnceAndAWriterIsAlone, TestASemaphoreHasAsManyHoldersAsPermits,
//	TestARedLockOutlivesRollingRestartsBesideWaiters, stories/groups.txt
//
// Guarded writes
//
//	TestAGuardedWriteIsExecutedWhileItsHoldHasTheLock, TestAGuardedWriteOfALostHoldWritesNothingAndTellsTheLoss,
//	TestAReleaseWithAScriptIsOneStep, driver.TestALateGuardedWriteFindsAnotherTenure
//
// Fencing tokens
//
//	TestATokenIsCountedForEachGrantInRedissonsKey, TestTokensAreExactBeyondWhatLuaCanCount, stories/fenced.txt
