package checker_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
)

// Each story is followed by the rules that it breaks, and those that a fault excuses.
type told struct {
	title   string
	tell    func(s *story)
	broken  []checker.Rule
	excused []checker.Rule
}

var stories = []told{
	{title: "one after the other", tell: func(s *story) {
		s.kept("a", 0, 1, 990, watched)
		s.gives("a", 100, 101, history.Released)
		s.kept("b", 50, 101, 1090, watched)
		s.gives("b", 200, 201, history.Released)
	}},
	{title: "two at once", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.kept("b", 50, 60, 1050)
		s.gives("a", 100, 101, history.Released)
		s.gives("b", 200, 201, history.Released)
	}},
	{title: "an owner that is slow to give back", tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.gives("a", 100, 300, history.Released)
		s.kept("b", 50, 200, 1190)
		s.gives("b", 300, 301, history.Released)
	}},
	{title: "a fixed lease that ends", tell: func(s *story) {
		s.fixed("a", 0, 1, 990)
		s.kept("b", 0, 1000, 1990)
		s.gives("a", 1200, 1201, history.Lost)
	}},
	{title: "a grant before a promise has ended", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.fixed("a", 0, 1, 990)
		s.kept("b", 0, 950, 1940)
		s.gives("a", 1200, 1201, history.Lost)
	}},
	{title: "a promise that was renewed", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		call := s.kept("a", 0, 1, 990)
		s.looks("a", call, 500, 1490)
		s.kept("b", 0, 1000, 1990)
	}},
	{title: "a promise of an owner that was told of the loss", tell: func(s *story) {
		call := s.kept("a", 0, 1, 990)
		s.told("a", call, 400)
		s.kept("b", 0, 500, 1490)
	}},
	{title: "a promise of an owner that found the loss", tell: func(s *story) {
		call := s.kept("a", 0, 1, 990)
		s.looks("a", call, 400, 0)
		s.kept("b", 0, 500, 1490)
	}},
	{title: "an owner that returned from a stop after its lease", tell: func(s *story) {
		s.fixed("a", 0, 5000, 990)
		s.kept("b", 2000, 2001, 2990)
		s.gives("b", 6000, 6001, history.Released)
		s.gives("a", 7000, 7001, history.Lost)
	}},
	{title: "an owner without a promise, whose unlock says it was held", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.byName("a", 0, 1, 1)
		s.byName("b", 0, 50, 1)
		s.holds("b", 2, 60)
		s.gives("a", 100, 101, history.Released)
		s.gives("b", 100, 101, history.Lost)
	}},
	{title: "an owner without a promise, that learns of the loss", tell: func(s *story) {
		s.byName("a", 0, 1, 1)
		s.byName("b", 0, 50, 1)
		s.gives("a", 100, 101, history.Lost)
		s.gives("b", 100, 101, history.Released)
	}},
	{title: "an owner without a promise, that finds the lock held", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		call := s.byName("a", 0, 1, 1)
		s.holds("a", call, 80)
		s.byName("b", 0, 50, 1)
		s.gives("b", 100, 101, history.Released)
	}},
	{title: "an owner without confirmation, and the next", tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.gives("a", 100, 3000, history.Unconfirmed)
		s.kept("b", 50, 150, 1140)
		s.gives("b", 200, 201, history.Released)
	}},
	{title: "an owner that is killed with the lock, and the next after the lease", tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.fault(100, 101, killA)
		s.kept("b", 50, 1001, 1990)
		s.gives("b", 1100, 1101, history.Released)
		s.ended("b", 1200)
	}},
	{title: "an owner that is killed with the lock, and the next before", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.fault(100, 101, killA)
		s.kept("b", 50, 500, 1490)
		s.gives("b", 1100, 1101, history.Released)
		s.ended("b", 1200)
	}},
	{title: "an owner that closes the client", tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.call("a", 100, 102, history.Op{Method: history.Close}, history.Result{Outcome: history.Released})
		s.kept("b", 50, 101, 1090)
		s.ended("a", 103)
	}},
	{title: "a cancelled acquire and one that never returned", tell: func(s *story) {
		s.wants("a", 0, 100, history.Cancelled)
		s.wants("b", 0, 0, "")
		s.kept("c", 0, 50, 1040)
		s.gives("c", 60, 61, history.Released)
	}},

	{title: "an overlap by a key that was deleted", excused: []checker.Rule{checker.Overlap}, tell: func(s *story) {
		call := s.kept("a", 0, 1, 990, watched)
		s.fault(100, 101, del)
		s.kept("b", 0, 110, 1100)
		s.told("a", call, 300)
		s.gives("b", 400, 401, history.Released)
	}},
	{title: "an overlap long after a key was deleted", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.fault(100, 101, del)
		s.kept("a", 1500, 1501, 2490)
		s.kept("b", 1500, 1600, 2590)
	}},
	{title: "an overlap by another key that was deleted", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.fault(100, 101, history.Fault{What: "DEL", Forgets: true, Name: "orders:43"})
		s.kept("b", 0, 110, 1100)
	}},
	{title: "an overlap by a fault by which Redis forgets nothing", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.fault(100, 101, cut)
		s.kept("b", 0, 110, 1100)
	}},
	{title: "an overlap by a ForceUnlock", excused: []checker.Rule{checker.Overlap}, tell: func(s *story) {
		call := s.kept("a", 0, 1, 990)
		s.call("c", 99, 101, history.Op{Method: history.ForceUnlock}, history.Result{Outcome: history.Released})
		s.kept("b", 0, 110, 1100)
		s.told("a", call, 300)
	}},
	{title: "an overlap beside a ForceUnlock that found nothing", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.call("c", 99, 101, history.Op{Method: history.ForceUnlock}, history.Result{Outcome: history.NotHeld})
		s.kept("b", 0, 110, 1100)
	}},
	{title: "a ForceUnlock that is executed when the network is back", excused: []checker.Rule{checker.Overlap}, tell: func(s *story) {
		s.kept("a", 0, 3001, 3990)
		s.fault(50, 3100, cut)
		s.call("c", 99, 200, history.Op{Method: history.ForceUnlock}, history.Result{Outcome: history.Failed})
		s.kept("b", 0, 3110, 4100)
	}},

	{title: "levels that are counted", tell: func(s *story) {
		s.byName("a", 0, 1, 1)
		s.byName("a", 2, 3, 2)
		s.byName("a", 4, 5, 3)
		s.gives("a", 6, 7, history.Released)
		s.byName("a", 8, 9, 3)
		for ms := 10; ms < 16; ms += 2 {
			s.gives("a", ms, ms+1, history.Released)
		}
		s.byName("b", 0, 20, 1)
	}},
	{title: "a level counted twice", broken: []checker.Rule{checker.Count, checker.Order}, tell: func(s *story) {
		s.byName("a", 0, 1, 1)
		s.byName("a", 2, 3, 3)
		s.gives("a", 6, 7, history.Released)
		s.gives("a", 8, 9, history.Released)
	}},
	{title: "a first level counted twice", broken: []checker.Rule{checker.Count, checker.Order}, tell: func(s *story) {
		s.byName("a", 0, 1, 2)
		s.gives("a", 6, 7, history.Released)
	}},
	{title: "a count that begins anew while the lock is held", broken: []checker.Rule{checker.Count, checker.Order}, tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.kept("a", 2, 3, 990, count(1))
	}},
	{title: "a count that begins anew after the lease", tell: func(s *story) {
		s.fixed("a", 0, 1, 990, count(1))
		s.fixed("a", 1000, 1001, 1990, count(1))
		s.gives("a", 1100, 1101, history.Released)
		s.gives("a", 1102, 1103, history.Lost)
	}},
	{title: "a count that was not asked for, after the lease and another owner", tell: func(s *story) {
		s.fixed("a", 0, 1, 990)
		s.kept("b", 0, 1001, 1990)
		s.gives("b", 1100, 1101, history.Released)
		s.fixed("a", 1200, 1201, 2190)
		s.gives("a", 1300, 1301, history.Released)
	}},
	{title: "levels that two goroutines take at once", tell: func(s *story) {
		s.byName("a", 0, 1, 1)
		s.byName("a", 2, 9, 3)
		s.byName("a", 3, 10, 2)
		for ms := 11; ms < 17; ms += 2 {
			s.gives("a", ms, ms+1, history.Released)
		}
	}},
	{title: "a look that counts wrongly", broken: []checker.Rule{checker.Count}, tell: func(s *story) {
		call := s.byName("a", 0, 1, 1)
		s.add("a", 5, history.Event{Kind: history.Looked, Number: call, Belief: &history.Belief{Held: true, Count: 2, Seen: at(6)}})
		s.gives("a", 10, 11, history.Released)
	}},
	{title: "a look beside an unlock", tell: func(s *story) {
		s.byName("a", 0, 1, 1)
		call := s.byName("a", 2, 3, 2)
		s.add("a", 5, history.Event{Kind: history.Looked, Number: call, Belief: &history.Belief{Held: true, Count: 1, Seen: at(15)}})
		s.gives("a", 10, 11, history.Released)
		s.gives("a", 20, 21, history.Released)
	}},
	{title: "an unlock too many that succeeds", broken: []checker.Rule{checker.Count}, tell: func(s *story) {
		s.byName("a", 0, 1, 1)
		s.gives("a", 6, 7, history.Released)
		s.gives("a", 8, 9, history.Released)
	}},
	{title: "an unlock too many that fails", tell: func(s *story) {
		s.byName("a", 0, 1, 1)
		s.gives("a", 6, 7, history.Released)
		s.gives("a", 8, 9, history.NotHeld)
	}},

	{title: "tokens that grow", tell: func(s *story) {
		s.kept("a", 0, 1, 990, token(7))
		s.kept("a", 2, 3, 990, token(7))
		s.gives("a", 10, 11, history.Released)
		s.gives("a", 12, 13, history.Released)
		s.kept("b", 20, 21, 990, token(9))
		s.gives("b", 30, 31, history.Released)
	}},
	{title: "a token repeated", broken: []checker.Rule{checker.Order, checker.Token}, tell: func(s *story) {
		s.kept("a", 0, 1, 990, token(7))
		s.gives("a", 10, 11, history.Released)
		s.kept("b", 20, 21, 990, token(7))
		s.gives("b", 30, 31, history.Released)
	}},
	{title: "a token less than before", broken: []checker.Rule{checker.Order, checker.Token}, tell: func(s *story) {
		s.kept("a", 0, 1, 990, token(7))
		s.gives("a", 10, 11, history.Released)
		s.kept("b", 20, 21, 990, token(6))
		s.gives("b", 30, 31, history.Released)
	}},
	{title: "a token that changes within a hold", broken: []checker.Rule{checker.Order, checker.Token}, tell: func(s *story) {
		s.kept("a", 0, 1, 990, token(7))
		s.kept("a", 2, 3, 990, token(8))
		s.gives("a", 10, 11, history.Released)
		s.gives("a", 12, 13, history.Released)
	}},
	{title: "a smaller token of an owner that was over on return", tell: func(s *story) {
		s.fixed("a", 0, 3000, 990, token(7))
		s.fixed("b", 2000, 2001, 2990, token(8))
	}},
	{title: "tokens that begin anew with an empty Redis", excused: []checker.Rule{checker.Token}, tell: func(s *story) {
		s.kept("a", 0, 1, 990, token(7))
		s.gives("a", 10, 11, history.Released)
		s.fault(15, 16, del)
		s.kept("b", 20, 21, 990, token(1))
		s.gives("b", 30, 31, history.Released)
		s.kept("c", 2000, 2001, 2990, token(2))
		s.gives("c", 2030, 2031, history.Released)
	}},

	{title: "tokens that begin anew long after Redis was emptied", excused: []checker.Rule{checker.Token}, tell: func(s *story) {
		s.kept("a", 0, 1, 990, token(7))
		s.gives("a", 10, 11, history.Released)
		s.fault(15, 16, del)
		s.kept("b", 2000, 2001, 2990) // takes no token, and knows of none
		s.gives("b", 2030, 2031, history.Released)
		s.kept("c", 3000, 3001, 3990, token(1))
		s.gives("c", 3030, 3031, history.Released)
	}},
	{title: "a token repeated after Redis was emptied", broken: []checker.Rule{checker.Order, checker.Token}, excused: []checker.Rule{checker.Token}, tell: func(s *story) {
		s.kept("a", 0, 1, 990, token(7))
		s.gives("a", 10, 11, history.Released)
		s.fault(15, 16, del)
		s.kept("b", 2000, 2001, 2990, token(1))
		s.gives("b", 2030, 2031, history.Released)
		s.kept("c", 3000, 3001, 3990, token(1))
		s.gives("c", 3030, 3031, history.Released)
	}},

	{title: "a yes after the time that was promised", broken: []checker.Rule{checker.Overdue}, tell: func(s *story) {
		call := s.kept("a", 0, 1, 990)
		s.looks("a", call, 1000, 990)
	}},
	{title: "a yes after the lease", broken: []checker.Rule{checker.Overdue}, tell: func(s *story) {
		call := s.fixed("a", 0, 1, 990)
		s.holds("a", call, 1100)
	}},
	{title: "an unlock after the lease that succeeds", broken: []checker.Rule{checker.Overdue}, tell: func(s *story) {
		s.fixed("a", 0, 1, 990)
		s.gives("a", 1100, 1101, history.Released)
	}},
	{title: "an unlock after the loss was told that succeeds", broken: []checker.Rule{checker.Overdue}, tell: func(s *story) {
		call := s.kept("a", 0, 1, 990)
		s.told("a", call, 500)
		s.gives("a", 600, 601, history.Released)
	}},
	{title: "a yes after the unlock", broken: []checker.Rule{checker.Overdue}, tell: func(s *story) {
		call := s.kept("a", 0, 1, 990)
		s.gives("a", 100, 110, history.Released)
		s.looks("a", call, 120, 990)
	}},
	{title: "a yes during the unlock", tell: func(s *story) {
		call := s.kept("a", 0, 1, 990)
		s.looks("a", call, 105, 990)
		s.gives("a", 100, 110, history.Released)
	}},
	{title: "a nested lease that is longer, and was given back", tell: func(s *story) {
		s.fixed("a", 0, 1, 990)
		s.take("a", 2, 3, 9000, history.Op{Method: history.LockFor, Lease: 10 * second}, nil)
		s.gives("a", 100, 101, history.Released)
		s.kept("b", 0, 1001, 1990)
	}},

	{title: "a loss told once", tell: func(s *story) {
		call := s.fixed("a", 0, 1, 990, watched)
		s.told("a", call, 991)
		s.gives("a", 1100, 1101, history.Lost)
		s.gives("a", 1102, 1103, history.NotHeld)
		s.ended("a", 2000)
	}},
	{title: "a loss told twice by Done", broken: []checker.Rule{checker.ToldTwice}, tell: func(s *story) {
		call := s.fixed("a", 0, 1, 990, watched)
		s.told("a", call, 991)
		s.told("a", call, 992)
	}},
	{title: "a loss told twice by the unlock", broken: []checker.Rule{checker.ToldTwice}, tell: func(s *story) {
		s.fixed("a", 0, 1, 990)
		s.gives("a", 1100, 1101, history.Lost)
		s.gives("a", 1102, 1103, history.Lost)
	}},
	{title: "a loss of two levels told by two unlocks", tell: func(s *story) {
		s.fixed("a", 0, 1, 990)
		s.fixed("a", 2, 3, 990)
		s.gives("a", 1100, 1101, history.Lost)
		s.gives("a", 1102, 1103, history.Lost)
	}},
	{title: "a loss that the unlock does not report", broken: []checker.Rule{checker.NeverTold}, tell: func(s *story) {
		s.fixed("a", 0, 1, 990)
		s.gives("a", 1100, 1101, history.NotHeld)
	}},
	{title: "a loss that the unlock does not report, after another hold", broken: []checker.Rule{checker.NeverTold}, tell: func(s *story) {
		s.fixed("a", 0, 1, 990, count(1))
		s.fixed("a", 1000, 1001, 1990, count(1))
		s.gives("a", 1100, 1101, history.Released)
		s.gives("a", 1102, 1103, history.Released)
	}},
	{title: "a lease that would have ended after the client was closed", tell: func(s *story) {
		s.fixed("a", 0, 1, 990, watched)
		s.call("a", 100, 102, history.Op{Method: history.Close}, history.Result{Outcome: history.Released})
		s.ended("a", 2000)
	}},
	{title: "a loss never told by Done", broken: []checker.Rule{checker.NeverTold}, tell: func(s *story) {
		s.fixed("a", 0, 1, 990, watched)
		s.ended("a", 2000)
	}},
	{title: "a loss that a look found, and Done tells then", tell: func(s *story) {
		call := s.kept("a", 0, 1, 990, watched)
		s.looks("a", call, 400, 0)
		s.told("a", call, 410)
		s.gives("a", 800, 801, history.Lost)
	}},
	{title: "a loss that a look found, and the unlock tells at once", tell: func(s *story) {
		call := s.kept("a", 0, 1, 990, watched)
		s.looks("a", call, 400, 0)
		s.gives("a", 401, 402, history.Lost)
	}},
	{title: "a loss that a look found, and Done does not tell", broken: []checker.Rule{checker.ToldLate}, tell: func(s *story) {
		call := s.kept("a", 0, 1, 990, watched)
		s.looks("a", call, 400, 0)
		s.gives("a", 800, 801, history.Lost)
	}},
	{title: "a loss that a killed process could not learn", tell: func(s *story) {
		s.fixed("a", 0, 1, 990, watched)
		s.fault(500, 501, killA)
	}},
	{title: "a key that was deleted, and an unlock that does not report it", broken: []checker.Rule{checker.NeverTold}, excused: []checker.Rule{checker.Overlap}, tell: func(s *story) {
		call := s.kept("a", 0, 1, 990, watched)
		s.fault(100, 101, del)
		s.kept("b", 102, 110, 1100)
		s.gives("b", 200, 201, history.Released)
		s.looks("a", call, 800, 1700)
		s.gives("a", 900, 901, history.Released)
		s.ended("a", 1000)
	}},
	{title: "a key that was deleted, and a loss told when Redis was back", excused: []checker.Rule{checker.Overlap}, tell: func(s *story) {
		call := s.kept("a", 0, 1, 990, watched)
		s.fault(100, 101, del)
		s.fault(100, 700, cut)
		s.kept("b", 102, 110, 1100)
		s.told("a", call, 710)
		s.gives("b", 800, 801, history.Released)
	}},
	{title: "a key that was deleted, and a hold that was handed off by an owner that does not know", excused: []checker.Rule{checker.Overlap}, tell: func(s *story) {
		s.kept("a", 0, 1, 990, watched)
		s.fault(100, 101, del)
		s.kept("b", 50, 110, 1100, watched)
		s.gives("a", 120, 121, history.Released) // to c, in the process of a
		s.kept("c", 112, 122, 990, watched)
		s.gives("c", 200, 201, history.Lost)
		s.gives("b", 1000, 1001, history.Released)
		s.ended("b", 1002)
	}},
	{title: "a key that was deleted, and a level that is no longer renewed", excused: []checker.Rule{checker.Overlap}, tell: func(s *story) {
		s.fixed("a", 0, 1, 990, watched)
		s.kept("a", 2, 3, 990)
		s.gives("a", 4, 5, history.Released)
		s.fault(100, 101, del)
		call := s.events[0].Number
		s.looks("a", call, 102, 990)
		s.kept("b", 102, 110, 1100)
		s.gives("b", 200, 201, history.Released)
		s.told("a", call, 990)
	}},
	{title: "a loss told late", broken: []checker.Rule{checker.ToldLate}, tell: func(s *story) {
		call := s.fixed("a", 0, 1, 990, watched)
		s.told("a", call, 1100)
	}},
	{title: "a loss told late to a process that was stopped", tell: func(s *story) {
		call := s.fixed("a", 0, 1, 990, watched)
		s.fault(500, 1099, stopA)
		s.told("a", call, 1100)
	}},
	{title: "a loss told long after a process that was stopped went on", broken: []checker.Rule{checker.ToldLate}, tell: func(s *story) {
		call := s.fixed("a", 0, 1, 990, watched)
		s.fault(500, 1099, stopA)
		s.told("a", call, 1130)
	}},
	{title: "a loss told late by a machine that was busy", tell: func(s *story) {
		call := s.fixed("a", 0, 1, 990, watched)
		s.stalled("a", 1050, 55)
		s.stalled("a", 1090, 35)
		s.told("a", call, 1100)
	}},
	{title: "a loss told late while the machine was busy for a part of it", broken: []checker.Rule{checker.ToldLate}, tell: func(s *story) {
		call := s.fixed("a", 0, 1, 990, watched)
		s.stalled("a", 1040, 45)
		s.told("a", call, 1100)
	}},
	{title: "a loss told late while two things stopped the process at once", broken: []checker.Rule{checker.ToldLate}, tell: func(s *story) {
		call := s.fixed("a", 0, 1, 990, watched)
		s.stalled("a", 1050, 48)
		s.fault(1002, 1050, stopA)
		s.told("a", call, 1100)
	}},
	{title: "a loss told late while the machine was busy for another", broken: []checker.Rule{checker.ToldLate}, tell: func(s *story) {
		call := s.fixed("a", 0, 1, 990, watched)
		s.stalled("b", 1090, 100)
		s.told("a", call, 1100)
	}},
	{title: "a kept lock's loss told after another had it", broken: []checker.Rule{checker.ToldLate}, tell: func(s *story) {
		call := s.kept("a", 0, 1, 990, watched)
		s.kept("b", 1000, 1001, 1990)
		s.told("a", call, 1100)
	}},
	{title: "a kept lock's loss told after another had it that may have been first", tell: func(s *story) {
		call := s.kept("a", 0, 1, 990, watched)
		s.kept("b", 0, 1001, 1990)
		s.told("a", call, 1100)
	}},

	{title: "a waiter that is served by the fallback", tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.gives("a", 100, 101, history.Released)
		s.kept("b", 50, 5000, 5990)
		s.gives("b", 5100, 5101, history.Released)
	}},
	{title: "a waiter that is forgotten", broken: []checker.Rule{checker.Stranded}, tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.gives("a", 100, 101, history.Released)
		s.wants("b", 50, 6000, history.Cancelled)
	}},
	{title: "a waiter that is forgotten, and has not returned", broken: []checker.Rule{checker.Stranded}, tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.gives("a", 100, 101, history.Released)
		s.ended("a", 6000)
		s.wants("b", 50, 0, "")
		s.fault(6001, 6002, history.Fault{What: "kill -9", Victim: "b"})
	}},
	{title: "a call for several locks that waits for another one", tell: func(s *story) {
		op := history.Op{Method: history.Lock, Lease: time.Second, Kept: true, Parts: 2}
		s.call("a", 0, 9000, op, history.Result{Outcome: history.Acquired, Count: 1})
		s.gives("a", 9100, 9101, history.Released)
		s.wants("b", 50, 9001, history.Refused) // a may have had this one
	}},
	{title: "a waiter while the lock is held", tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.wants("b", 50, 9000, history.Cancelled)
		s.gives("a", 9001, 9002, history.Released)
	}},
	{title: "a waiter while Redis is away", tell: func(s *story) {
		s.fault(1000, 8000, cut)
		s.wants("b", 50, 9000, history.Cancelled)
	}},
	{title: "a waiter while a killed process has the lock", tell: func(s *story) {
		s.take("a", 0, 1, 0, history.Op{Method: history.Acquire, Lease: 8 * second, Kept: true}, nil)
		s.fault(100, 101, killA)
		s.wants("b", 50, 9000, history.Cancelled)
	}},
	{title: "a waiter long after a process was killed", broken: []checker.Rule{checker.Stranded}, tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.fault(100, 101, killA)
		s.wants("b", 50, 9000, history.Cancelled)
	}},
	{title: "a waiter behind a cancelled acquire that may have got it", tell: func(s *story) {
		s.call("a", 0, 100, history.Op{Method: history.Lock, Lease: 6 * second, Kept: true}, history.Result{Outcome: history.Cancelled})
		s.wants("b", 50, 9000, history.Cancelled)
	}},
	{title: "a waiter behind a killed one that may have got it", tell: func(s *story) {
		s.call("a", 0, 0, history.Op{Method: history.Lock, Lease: 6 * second, Kept: true}, history.Result{})
		s.fault(100, 101, killA)
		s.wants("b", 50, 9000, history.Cancelled)
	}},
	{title: "a waiter behind one with an unknown outcome", tell: func(s *story) {
		s.wants("a", 0, 0, "")
		s.wants("b", 50, 9000, history.Cancelled)
	}},
	{title: "a waiter long after an abandoned lease", broken: []checker.Rule{checker.Stranded}, tell: func(s *story) {
		s.fixed("a", 0, 1, 990)
		s.wants("b", 50, 9000, history.Cancelled)
	}},
	{title: "a waiter after a stop, whose history goes on", broken: []checker.Rule{checker.Stranded}, tell: func(s *story) {
		s.fault(0, 10, stopA)
		s.wants("a", 11, 0, "")
		s.wants("a", 9000, 9001, history.Refused)
	}},
	{title: "a waiter behind an unlock without confirmation", tell: func(s *story) {
		s.take("a", 0, 1, 0, history.Op{Method: history.Acquire, Lease: 5 * second, Kept: true}, nil)
		s.gives("a", 100, 3000, history.Unconfirmed)
		s.wants("b", 50, 9000, history.Cancelled)
	}},

	{title: "something left behind", broken: []checker.Rule{checker.Leftover}, tell: func(s *story) {
		s.add("runner", 1, history.Event{Kind: history.Left, Leftover: "the key orders:42"})
	}},
}

func TestEachStoryBreaksExactlyItsRules(t *testing.T) {
	for _, told := range slices.Concat(stories, storiesOfReaders) {
		t.Run(told.title, func(t *testing.T) {
			var s story
			told.tell(&s)
			report := s.check(t)
			require.Equal(t, append([]checker.Rule{}, told.broken...), rules(report.Violations), "%v", report)
			require.Equal(t, append([]checker.Rule{}, told.excused...), rules(report.Excused), "%v", report)
		})
	}
}

func TestAnOverlapHasItsLength(t *testing.T) {
	var s story
	call := s.kept("a", 0, 1, 990, watched)
	s.fault(100, 101, del)
	s.kept("b", 0, 110, 1100)
	s.told("a", call, 300)
	excused := s.check(t).Excused
	require.Len(t, excused, 1)
	require.Equal(t, 190*time.Millisecond, excused[0].Both)
	require.Equal(t, "DEL", excused[0].Cause)
}

func TestAHistoryOutOfOrderIsRefused(t *testing.T) {
	_, err := checker.Check([]history.Event{{At: 2, Kind: history.Ended}, {At: 1, Kind: history.Ended}}, checker.Options{})
	require.ErrorContains(t, err, "sort them by time")
	_, err = checker.Check([]history.Event{{Kind: history.Returned, Number: 1, Result: &history.Result{}}}, checker.Options{})
	require.ErrorContains(t, err, "never began")
}

func TestAReportHasTheFiguresAndTheEvents(t *testing.T) {
	var s story
	s.kept("a", 0, 1, 990)
	s.kept("b", 50, 60, 1050)
	s.wants("c", 0, 70, history.Cancelled)
	s.wants("c", 71, 0, "")
	s.fault(80, 81, cut)
	s.gives("a", 100, 101, history.Released)
	report := s.check(t)
	require.Equal(t, 5, report.Operations)
	require.Equal(t, map[history.Outcome]int{history.Acquired: 2, history.Cancelled: 1, history.Released: 1, "": 1}, report.Outcomes)
	require.Equal(t, 2, report.Holds)
	require.Equal(t, map[string]int{"a cut connection": 1}, report.Faults)
	require.Equal(t, 10*time.Millisecond, report.LongestWait)
	text := report.String()
	require.Contains(t, text, `overlap of "orders:42": a believes for 40ms that it has the lock, after b got it`)
	require.Contains(t, text, `"until":990000000`)
	require.Contains(t, text, "unknown      1")
}

func TestAReportCountsTheLaterWaitersThatPassedOne(t *testing.T) {
	var s story
	s.kept("a", 0, 1, 990)
	s.gives("a", 500, 501, history.Released)
	s.kept("b", 200, 502, 1490) // b comes 100 ms later, and passes c
	s.gives("b", 510, 511, history.Released)
	s.kept("d", 300, 512, 1500)
	s.gives("d", 520, 521, history.Released)
	s.kept("e", 90, 522, 1510) // not later enough
	s.gives("e", 530, 531, history.Released)
	s.kept("c", 10, 532, 1520)
	s.gives("c", 540, 541, history.Released)
	require.Equal(t, 2, s.check(t).MostPassed)

	s.fault(505, 506, cut)
	require.Zero(t, s.check(t).MostPassed, "during a fault the order of the waiters is not known")
}

func TestAPictureShowsAPartWithoutAnOrder(t *testing.T) {
	var s story
	s.kept("a", 0, 1, 990)
	s.kept("b", 50, 60, 1050)
	s.gives("a", 100, 101, history.Released)
	dir := t.TempDir()
	report, err := checker.Check(s.sorted(), checker.Options{Pictures: dir})
	require.NoError(t, err)
	require.Equal(t, 1, report.Broken(checker.Order))
	path := filepath.Join(dir, "orders:42-0.html")
	require.FileExists(t, path)
	require.Contains(t, report.String(), path)
}
