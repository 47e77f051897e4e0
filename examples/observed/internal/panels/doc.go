// Package panels asks Prometheus what a dashboard of Grafana asks, and draws the answers as
// SVG: a picture of a dashboard without Grafana. It knows of a dashboard what rlock's own one
// uses: figures, and lines over time that may be stacked.
//
// A panel without an answer is an error, so that a picture that was drawn is a test as well:
// each query of the dashboard found what it asks for.
package panels
