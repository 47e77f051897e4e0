package checker_test

import (
	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
)

var storiesOfReaders = []told{
	{title: "readers at once, and a writer after them", tell: func(s *story) {
		s.reads("a", 0, 1, 990, count(1))
		s.reads("b", 0, 50, 1040, count(1))
		s.reads("a", 51, 52, 1040, count(2))
		s.readEnds("a", 60, 61, history.Released)
		s.readEnds("a", 100, 101, history.Released)
		s.readEnds("b", 200, 201, history.Released)
		s.kept("c", 0, 202, 1190)
		s.gives("c", 300, 301, history.Released)
		s.reads("a", 210, 302, 1290)
		s.readEnds("a", 400, 401, history.Released)
	}},
	{title: "a writer beside a reader", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.reads("a", 0, 1, 990)
		s.kept("b", 20, 50, 1040)
		s.readEnds("a", 100, 101, history.Released)
		s.gives("b", 200, 201, history.Released)
	}},
	{title: "a writer beside the last of two readers", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.reads("a", 0, 1, 990)
		s.reads("b", 0, 2, 990)
		s.readEnds("a", 10, 11, history.Released)
		s.kept("c", 20, 50, 1040)
		s.readEnds("b", 100, 101, history.Released)
		s.gives("c", 200, 201, history.Released)
	}},
	{title: "a reader beside a writer", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.reads("b", 20, 50, 1040)
		s.gives("a", 100, 101, history.Released)
		s.readEnds("b", 200, 201, history.Released)
	}},
	{title: "a writer after the lease of a reader, beside another that goes on", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.readsFor("a", 0, 1, 990)
		call := s.reads("b", 0, 2, 990)
		s.looks("b", call, 900, 1890)
		s.kept("c", 0, 1100, 2090)
	}},
	{title: "a writer after the leases of killed readers", tell: func(s *story) {
		s.reads("a", 0, 1, 990)
		s.fault(500, 501, killA)
		s.readsFor("b", 0, 2, 990)
		s.kept("c", 0, 1400, 2390)
		s.gives("c", 1500, 1501, history.Released)
	}},
	{title: "a writer that reads as well, and goes on reading beside others", tell: func(s *story) {
		s.kept("a", 0, 1, 990, count(1))
		s.reads("a", 2, 3, 990, count(1))
		s.gives("a", 10, 11, history.Released)
		s.reads("b", 5, 12, 1000)
		s.readEnds("a", 100, 101, history.Released)
		s.readEnds("b", 110, 111, history.Released)
		s.kept("c", 5, 112, 1100)
		s.gives("c", 200, 201, history.Released)
	}},
	{title: "a writer for a lease, extended by its read lock", tell: func(s *story) {
		call := s.fixed("a", 0, 1, 990, watched)
		s.reads("a", 2, 3, 990)
		s.looks("a", call, 1500, 1990)
		s.gives("a", 2000, 2001, history.Released)
		s.readEnds("a", 2002, 2003, history.Released)
		s.kept("b", 5, 2004, 3000)
		s.gives("b", 2010, 2011, history.Released)
	}},
	{title: "a writer for a lease, after it had read", broken: []checker.Rule{checker.Overdue}, tell: func(s *story) {
		s.reads("a", 0, 1, 990)
		s.readEnds("a", 10, 11, history.Released)
		call := s.fixed("a", 12, 13, 1000)
		s.looks("a", call, 1100, 2000)
	}},
	{title: "a writer that goes on reading, and another writer", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.reads("a", 2, 3, 990)
		s.gives("a", 10, 11, history.Released)
		s.kept("b", 5, 12, 1000)
		s.readEnds("a", 100, 101, history.Released)
		s.gives("b", 200, 201, history.Released)
	}},
	{title: "a reader beside a writer that reads as well", broken: []checker.Rule{checker.Order, checker.Overlap}, tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.reads("a", 2, 3, 990)
		s.reads("b", 4, 5, 990)
		s.gives("a", 10, 11, history.Released)
		s.readEnds("a", 100, 101, history.Released)
		s.readEnds("b", 110, 111, history.Released)
	}},
	{title: "readers' levels that are counted wrongly", broken: []checker.Rule{checker.Count, checker.Order}, tell: func(s *story) {
		s.reads("a", 0, 1, 990, count(1))
		s.reads("b", 2, 3, 990, count(2))
		s.readEnds("a", 10, 11, history.Released)
		s.readEnds("b", 12, 13, history.Released)
	}},
	{title: "an unlock of the read lock by a writer", broken: []checker.Rule{checker.Count}, tell: func(s *story) {
		s.reads("a", 0, 1, 990)
		s.readEnds("a", 2, 3, history.Released)
		s.kept("a", 4, 5, 990)
		s.readEnds("a", 6, 7, history.Released)
		s.gives("a", 8, 9, history.Released)
	}},

	{title: "a reader that is notified of the loss before a writer may have it", tell: func(s *story) {
		call := s.readsFor("a", 0, 1, 990, watched)
		s.told("a", call, 991)
		s.kept("b", 0, 1001, 1990)
		s.gives("b", 1100, 1101, history.Released)
		s.readEnds("a", 1200, 1201, history.Lost)
	}},
	{title: "a reader's loss told after a writer had it", broken: []checker.Rule{checker.ToldLate}, tell: func(s *story) {
		call := s.reads("a", 0, 1, 990, watched)
		s.kept("b", 1000, 1001, 1990)
		s.told("a", call, 1100)
	}},
	{title: "a reader that lost nothing when another read", tell: func(s *story) {
		call := s.reads("a", 0, 1, 990, watched)
		s.reads("b", 1000, 1001, 1990)
		s.told("a", call, 1100)
	}},
	{title: "a writer's loss told after a reader had it", broken: []checker.Rule{checker.ToldLate}, tell: func(s *story) {
		call := s.kept("a", 0, 1, 990, watched)
		s.reads("b", 1000, 1001, 1990)
		s.told("a", call, 1100)
	}},
	{title: "a read lock that was deleted, and a writer", excused: []checker.Rule{checker.Overlap}, tell: func(s *story) {
		call := s.reads("a", 0, 1, 990, watched)
		s.fault(100, 101, del)
		s.kept("b", 0, 110, 1100)
		s.told("a", call, 300)
		s.gives("b", 400, 401, history.Released)
	}},

	{title: "a reader that waits while others read", broken: []checker.Rule{checker.Stranded}, tell: func(s *story) {
		s.reads("a", 0, 1, 990)
		s.wantsToRead("b", 50, 9000, history.Cancelled)
		s.readEnds("a", 9001, 9002, history.Released)
	}},
	{title: "a reader that waits behind a writer that waits", tell: func(s *story) {
		s.reads("a", 0, 1, 990)
		s.wants("b", 40, 9000, history.Cancelled)
		s.wantsToRead("c", 50, 9000, history.Cancelled)
		s.readEnds("a", 9001, 9002, history.Released)
	}},
	{title: "a reader that waits while a writer has the lock", tell: func(s *story) {
		s.kept("a", 0, 1, 990)
		s.wantsToRead("b", 50, 9000, history.Cancelled)
		s.gives("a", 9001, 9002, history.Released)
	}},
	{title: "a writer that is forgotten by readers", broken: []checker.Rule{checker.Stranded}, tell: func(s *story) {
		s.reads("a", 0, 1, 990)
		s.readEnds("a", 100, 101, history.Released)
		s.wants("b", 50, 6000, history.Cancelled)
	}},
}
