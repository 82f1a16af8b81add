"""Binary logs from outside are decoded in a process of their own, with limits of memory and time.

The libraries for MATLAB and HDF5 files trust what a file says about itself: a damaged or malicious one can crash them,
or ask for more memory than there is. So they never run in the process of the user.
"""
