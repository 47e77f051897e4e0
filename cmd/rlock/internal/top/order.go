package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// An Order is an order of the rows. Equal rows are sorted by name.
type Order string

// The orders.
const (
	ByWaiters Order = "waiters" // the most first
	ByName    Order = "name"
	ByRate    Order = "rate" // the highest first
	BySeen    Order = "seen" // the longest first
)

// String, Set and Type make an Order the value of a flag.
func (o *Order) String() string { return string(*o) }

// Set fails if there is no such order.
func (o *Order) Set(text string) error {
	if !slices.Contains([]Order{ByWaiters, ByName, ByRate, BySeen}, Order(text)) {
		return fmt.Errorf("not one of waiters, name, rate and seen")
	}
	*o = Order(text)
	return nil
}

// Type is the name of the value in the help.
func (o *Order) Type() string { return "column" }

// Sort sorts rows.
func (o Order) Sort(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int {
		by := 0
		switch o {
		case ByWaiters:
			by = cmp.Compare(b.Waiters(), a.Waiters())
		case ByRate:
			by = cmp.Compare(b.Rate, a.Rate)
		case BySeen:
			by = cmp.Compare(b.Seen, a.Seen)
		}
		return cmp.Or(by, strings.Compare(a.Name, b.Name))
	})
}
