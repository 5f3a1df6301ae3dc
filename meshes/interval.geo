// The interval (0, length).
DefineConstant[ h = 0.02, length = 1 ];
Point(1) = {0, 0, 0, h};
Point(2) = {length, 0, 0, h};
Line(1) = {1, 2};
Physical Curve("domain", 1) = {1};
Physical Point("left", 2) = {1};
Physical Point("right", 3) = {2};
