// The square (0, length)^2.
DefineConstant[ h = 0.05, length = 1 ];
Point(1) = {0, 0, 0, h};
Point(2) = {length, 0, 0, h};
Point(3) = {length, length, 0, h};
Point(4) = {0, length, 0, h};
Line(1) = {1, 2};
Line(2) = {2, 3};
Line(3) = {3, 4};
Line(4) = {4, 1};
Curve Loop(1) = {1, 2, 3, 4};
Plane Surface(1) = {1};
Physical Surface("domain", 1) = {1};
Physical Curve("bottom", 2) = {1};
Physical Curve("right", 3) = {2};
Physical Curve("top", 4) = {3};
Physical Curve("left", 5) = {4};
