// Package guide follows docs/guide as a reader would: it types the commands that stand there, and
// looks whether they print what stands there.
package guide
