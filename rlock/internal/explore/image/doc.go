// Package image copies the locks of a client of package core, and distinguishes two states of them: see [Image] and [Names].
//
// Both need each field of core's structs, of which most are private and stay so: no driver is to read them. So mirror.go has
// structs of the same layout, and the package panics before any test if one differs. A new field of core must stand there,
// in image.go, which copies it, and in key.go, which distinguishes states by it; a test finds a field that was left out.
package image
