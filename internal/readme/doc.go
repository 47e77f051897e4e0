// Package readme has tests of README.md and of the pages in docs: each Go block compiles, each
// relative link leads to a file and to a heading of it, and the tests and files exist that comments
// and documents name.
//
// A block is completed by this rule, and may import all packages of the modules in go.work but the
// internal ones:
//
//   - If it begins with a package clause it is a file, and nothing is added.
//
//   - If it is declarations, a package clause is added.
//
//   - Else it is statements, the body of a function. The parameters and results of the function stand in a comment on the line
//     above the block, which readers of the page do not see, and are none without it:
//
//     <!-- go: (ctx context.Context, lock *rlock.Lock) error -->
//
//   - A block of code that a test runs says where that is on the line above it. It must be a part of that file, letter for letter:
//
//     <!-- from: examples/handler/handler.go -->
//
//   - A line of three dots alone stands for code that is left out, and is dropped.
//
//   - The packages in the map imports are imported where the block names them.
package readme
