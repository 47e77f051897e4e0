package tests_test

// Twenty-four failures of lock libraries, as reported in issues and post-mortems; below each the
// tests that fail on a library with that bug, or the limit in docs/guarantees.md. Those with the
// ending .txt are in testdata.
//
//	 1  a pause outlived the lease, and a batch of payments ran twice
//	      docs/guarantees.md: it cannot stop code that is already running
//	      losses.TestALostHoldIsInvalidByTheClockAlone, lease.TestEverythingIsAskedWhenTheMachineSlept
//	 2  after a reconnect nothing was renewed any more
//	      losses.TestAFailedRenewalIsTriedAgainSoon
//	 3  a renewal that failed was a line in the log, and the work went on
//	      losses.TestALossIsReportedBeforeRedisCanGrantTheLockToAnother, stories/losses.txt
//	 4  a renewal outlived the unlock
//	      losses.TestAfterUnlockNothingIsRenewedEver, stories/outages.txt,
//	      lease.TestNothingIsRenewedAfterARelease
//	 5  a lock that was taken right after the last one was freed was not renewed
//	      stories/readers.txt, lease/leases.txt
//	 6  a goroutine or a ticker stayed behind for each lock
//	      losses.TestHeldLocksCostNoGoroutine; every bubble, and redistest.Main with goleak
//	 7  Unlock ended with the request's context, and the key stayed for minutes
//	      stories/owners.txt
//	 8  an acquire timed out, and was executed
//	      explore.TestBrokenRules (LeaveAgain), driver.TestEachOptionOfTheFaceEndsInEachWay,
//	      stories/outages.txt
//	 9  the clean-up overtook the acquire that it was to clean up after
//	      stories/outages.txt
//	10  a command that was sent again counted twice, and the lock was never free
//	      core/testdata/faults.txt, programs.TestProgramsOverTheWholeFace
//	11  with Redis down callers went on without a lock
//	      servers.TestATransientErrorIsRetriedOrReturnedByAnAttempt, stories/outages.txt
//	12  the message came between the failed attempt and the subscription
//	      servers.TestWherePubSubIsRefusedWaitersPollAndTheRefusalIsLoggedOnce,
//	      explore.TestBrokenRules (LooksAgain)
//	13  the subscription was half open for hours
//	      stories/outages.txt, pubsub.TestASilentConnectionIsGivenUp
//	14  many names exhausted the connections for subscriptions
//	      pubsub.TestTenThousandChannelsShareAConnection
//	15  each unlock was told to every node of a Cluster
//	      servers.TestTheCommandsOfPubSubAreThoseOfRedissonOrOfTheConfig
//	16  a sharded subscription died with the move of its slot
//	      servers.TestAHoldAndItsWaitersOutliveAFailoverAndAMoveOfTheirSlot,
//	      pubsub.TestAClusterIsFollowedWhereItsSlotsGo
//	17  a failover lost the key, and two had the lock
//	      docs/guarantees.md: a failover may lose a grant
//	      servers.TestGrantsLostInAFailover, stories/losses.txt
//	18  waiting for replicas made the lock impossible to take, or counted it twice
//	      stories/outages.txt
//	19  scripts were flushed, and nothing worked again
//	      wire.TestOnlyTheCallsWhoseScriptTheServerHasForgottenAreSentAgain
//	20  the lock was evicted, or the server was full
//	      docs/guarantees.md: a wrong server setting loses locks
//	      stories/losses.txt, servers.TestAFullServerIsWaitedForAndItsLocksCanBeUnlocked
//	21  waiters that had died were waited for
//	      losses.TestADeadWaiterCostsOneClaim
//	22  goroutines waited for a local holder whose lease was over
//	      stories/owners.txt
//	23  two were one owner, or one was two
//	      calls.TestOwnersAreDifferentAndTheZeroOwnerIsNoOwner, stories/owners.txt,
//	      wire.TestTheUUIDsOfTenuresCannotBeGuessed,
//	      calls.TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked
//	24  a slow network lost the lock; two services had different leases in their configs
//	      stories/losses.txt, servers.TestAWaiterGetsTheLockWhenTheLeaseOfADeadHolderEnds
//
// Related failures: a lease that was counted from the first of many attempts
// (core/testdata/leases.txt), a lease that one call left on a shared object
// (calls.TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked), a wake that let a later waiter through
// (stories/losses.txt), a panic in the section
// (calls.TestDoReleasesWhenTheFunctionPanicsOrEndsItsGoroutine).
