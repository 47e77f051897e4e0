package rlockotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/go-rlock/rlock/rlock"
)

// The buckets, in seconds and parts of a lease. An uncontended acquire is a round trip, from 50 us
// on; a wait or a hold may be minutes.
var (
	acquireBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	holdBuckets    = []float64{.0001, .001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600}
	renewBuckets   = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	marginBuckets  = []float64{0, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .55, .6, .65, .7, .8, 1}
)

// instruments record the events of the hooks.
type instruments struct {
	waiters         metric.Int64UpDownCounter
	acquireDuration metric.Float64Histogram
	holdDuration    metric.Float64Histogram
	renewDuration   metric.Float64Histogram
	leaseMargin     metric.Float64Histogram
}

// instrument makes the instruments, also those whose figures are read when they are collected.
func (o *observer) instrument(m metric.Meter) error {
	var failed []error
	check := func(err error) { failed = append(failed, err) }
	histogram := func(name, unit, description string, buckets []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(buckets...))
		check(err)
		return h
	}
	counter := func(name, unit, description string) metric.Int64ObservableCounter {
		c, err := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		check(err)
		return c
	}
	var err error
	o.waiters, err = m.Int64UpDownCounter("lock.client.waiters", metric.WithUnit("{call}"), metric.WithDescription("Calls that wait for a lock now."))
	check(err)
	o.acquireDuration = histogram("lock.client.acquire.duration", "s", "The time from a call for a lock until its end, with the lock or without.", acquireBuckets)
	o.holdDuration = histogram("lock.client.hold.duration", "s", "The time from the acquire of a lock until it is released or lost.", holdBuckets)
	o.renewDuration = histogram("lock.client.renew.duration", "s", "The round trip of a batch of renewals.", renewBuckets)
	o.leaseMargin = histogram("lock.client.lease.margin", "1", "The part of the lease that was left when a batch of renewals was confirmed, of the lock nearest to its end.", marginBuckets)

	held, err := m.Int64ObservableUpDownCounter("lock.client.held", metric.WithUnit("{lock}"), metric.WithDescription("Locks that are held now."))
	check(err)
	waitTime, err := m.Float64ObservableCounter("lock.client.wait.time", metric.WithUnit("s"), metric.WithDescription("The sum of the times of all calls for locks."))
	check(err)
	acquired := counter("lock.client.acquired", "{lock}", "Locks that were acquired, by the way.")
	denied := counter("lock.client.denied", "{call}", "Calls that did not get the lock, since another has it.")
	lost := counter("lock.client.lost", "{lock}", "Locks that were lost before they were released.")
	renewals := counter("lock.client.renewals", "{renewal}", "Renewals of leases.")
	commands := counter("lock.client.commands", "{command}", "Commands that were sent to Redis for locks.")
	if err := errors.Join(failed...); err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		s := o.stats()
		plain := o.of(label{}).observe
		to.ObserveInt64(held, s.Held, plain...)
		to.ObserveFloat64(waitTime, s.WaitTime.Seconds(), plain...)
		to.ObserveInt64(denied, s.Denied, plain...)
		to.ObserveInt64(commands, s.Commands, plain...)
		for way, n := range map[rlock.AcquiredBy]int64{
			rlock.ByNesting: s.AcquiredByNesting, rlock.ByJoining: s.AcquiredByJoining, rlock.ByHandoff: s.AcquiredByHandoff,
			rlock.ByRedis: s.AcquiredByRedis, rlock.ByQueue: s.AcquiredByQueue,
			rlock.ByPass: s.AcquiredByPass,
		} {
			to.ObserveInt64(acquired, n, o.of(label{way: string(way)}).observe...)
		}
		for reason, n := range map[rlock.LossReason]int64{
			rlock.LostUnrenewed: s.LostUnrenewed, rlock.LostLeaseEnded: s.LostLeaseEnded,
			rlock.LostHeldTooLong: s.LostHeldTooLong, rlock.LostKeyGone: s.LostKeyGone, rlock.LostForced: s.LostForced,
		} {
			to.ObserveInt64(lost, n, o.of(label{reason: string(reason)}).observe...)
		}
		to.ObserveInt64(renewals, s.Renewals-s.RenewalsFailed, o.of(label{result: "ok"}).observe...)
		to.ObserveInt64(renewals, s.RenewalsFailed, o.of(label{result: "failed"}).observe...)
		return nil
	}, held, waitTime, acquired, denied, lost, renewals, commands)
	return err
}
